package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// attempt is an assignment as the function that it is: a directory filled from
// the manifest that it starts from, an agent at work in it, and the difference
// collected. The outcome is set even where the attempt fails, and so is what it
// left: the next one may continue from there.
func (r *round) attempt(ctx context.Context) (*session.RoundResult, left, error) {
	var l left
	start := r.start(ctx)
	l.from = start.from()
	dir, brief, err := r.prepare(ctx, start)
	if err != nil {
		return nil, l, err
	}
	l.filled = true
	if err := r.noteStart(ctx, start.begun); err != nil {
		return nil, l, err
	}
	r.spender.begin(r.attemptKey(), start.earlier)
	contract := r.contract()
	collect := session.Collect{
		Base: r.in.Input, Dir: dir.Tree, Ignore: r.session.team.Ignore,
		Produces: r.session.team.Outputs(r.in.AssignmentID), Secrets: r.Agents.Secrets(),
	}
	persona := r.session.team.Personas[r.in.Persona]
	l.outcome, err = r.work(ctx, session.Job{
		Brief: brief, Agent: r.agent(), Dir: dir.Tree, Home: dir.Home, Tmp: dir.Tmp, LiveLog: dir.LiveLog, Begun: start.begun,
		Timeout: persona.Timeout, MaxTurns: persona.MaxTurns, Lock: r.held, Progress: r.setProgress,
		Deliver: contract, Try: r.try(dir, collect), Calls: r.spender, Continues: start.continues,
	})
	if err != nil {
		if f := r.filledDisk(ctx, err); f != nil {
			return nil, l, f
		}
		l.files = r.leftBy(ctx, err, collect)
		return nil, l, err
	}
	collected, err := r.collect(ctx, collect)
	if err != nil {
		return nil, l, err
	}
	l.files = collected.Output
	if len(l.outcome.SendsBack) > 0 { // what is declared not to be done is held to nothing
		if f := r.mayNotSendBack(); f != nil {
			return nil, l, f
		}
	} else if collected, err = r.hold(ctx, contract, dir, collect, collected, &l.outcome); err != nil {
		if f := r.filledDisk(ctx, err); f != nil {
			err = f
		}
		return nil, l, err
	}
	own, err := r.ownAgent(ctx, persona.Agent)
	if err != nil {
		return nil, l, err
	}
	basis := session.BasisOf(r.in.AssignmentID, persona, own, brief.Requirement, r.in.Input, brief.Decisions)
	return &session.RoundResult{
		Delta: collected.Delta, Output: collected.Output, Input: r.in.Input, Basis: &basis,
		Files:     len(collected.Changed) + len(collected.Deleted),
		SendsBack: l.outcome.SendsBack,
	}, l, nil
}

// hold sees whether collected work fulfils the contract. It returns the work with what the
// checks left and may keep, also where one of them has failed.
func (r *round) hold(ctx context.Context, c spec.Contract, dir session.WorkDir, req session.Collect, work session.Collected, outcome *session.Outcome) (session.Collected, error) {
	if f := missing(c.Produces, work.Changed); f != nil {
		return work, f
	}
	for _, check := range c.Checks {
		var err error
		if work, err = r.check(ctx, check, dir, req, work, outcome); err != nil {
			return work, err
		}
	}
	return work, nil
}

// mayNotSendBack refuses to send work back where that is not foreseen.
func (r *round) mayNotSendBack() *failures.Failure {
	switch {
	case r.maySendBack() != nil:
		return nil
	case r.in.Integrating:
		return failures.Failf(failures.InvalidOutput,
			"the result has sends_back, but this round fixes the merged work of phase %s; fix it, or report an error", r.in.Phase)
	}
	return failures.Failf(failures.InvalidOutput,
		"the result has sends_back, but phase %s has no sends_back in the team file; do the work, or report an error", r.in.Phase)
}

// maySendBack tells the agent to which phase it may send work back; nil: to none.
func (r *round) maySendBack() *session.MaySendBack {
	phase, _ := r.session.team.Phase(r.in.Phase)
	if phase.SendsBack == nil || r.in.Integrating {
		return nil
	}
	return &session.MaySendBack{To: phase.SendsBack.To, Left: r.in.MaySendBack}
}

// ownAgent describes the persona's own agent, which the work's basis names whoever
// has worked. The worker of a fallback need not have it.
func (r *round) ownAgent(ctx context.Context, name string) (own spec.OfferedAgent, err error) {
	if own = r.Agents.Offered(name); own.Kind != "" {
		return own, nil
	}
	err = r.retryStore(ctx, func() error {
		offers, err := r.Sessions.Offers(ctx)
		slices.SortFunc(offers, func(a, b spec.Offer) int { return a.RenewedAt.Compare(b.RenewedAt) })
		for _, o := range offers { // the newest wins
			if offered, ok := o.Agents[name]; ok {
				own = offered
			}
		}
		return err
	})
	return own, err
}

// left is what an attempt leaves behind: what its agent reports, and the files,
// empty where they are not known.
type left struct {
	// from is what the attempt started from. filled: the directory was filled for it.
	from    failures.Start
	filled  bool
	outcome session.Outcome
	files   spec.Digest
}

// contract is what an attempt of the round is held to.
func (r *round) contract() spec.Contract {
	if r.in.Integrating { // the seal verifies what it fixed
		return spec.Contract{}
	}
	return r.session.team.Contract(r.in.AssignmentID)
}

// leftBy collects what a failed agent left, for the next attempt to see or to go
// on from. Files that cannot be kept are no further failure.
func (r *round) leftBy(ctx context.Context, err error, req session.Collect) spec.Digest {
	if _, failed := asFailure(err); !failed || ctx.Err() != nil {
		return ""
	}
	collected, err := r.Files.Collect(ctx, req)
	if err != nil {
		return ""
	}
	return collected.Output
}

// try lets an agent run a check on the directory as it is. What the check leaves
// there goes again: what an attempt changes is for its agent alone to say.
func (r *round) try(dir session.WorkDir, req session.Collect) func(ctx context.Context, check string) ([]byte, error) {
	return func(ctx context.Context, check string) ([]byte, error) {
		collected, err := r.collect(ctx, req)
		if err != nil {
			return nil, err
		}
		outcome, failed := r.runCheck(ctx, check, dir)
		err = r.retryStore(ctx, func() error { return r.Files.Materialise(ctx, collected.Output, dir.Tree) })
		return outcome.Log, errors.Join(failed, err)
	}
}

// workDir is the assignment's directory, in which nothing is at work.
func (r *round) workDir() (session.WorkDir, error) {
	dir, err := r.Sessions.WorkDir(sessionKey(r.info), r.in.AssignmentID)
	if err == nil {
		err = r.Agents.Sweep(dir)
	}
	if err == nil {
		r.changePlace(func(p *place) { *p = place{dir: dir} })
	}
	return dir, err
}

// prepare fills the assignment's directory with what the attempt starts from and
// writes its brief.
func (r *round) prepare(ctx context.Context, s start) (dir session.WorkDir, brief session.Brief, err error) {
	err = r.retryStore(ctx, func() error {
		if dir, err = r.workDir(); err != nil {
			return err
		}
		if !s.asLeft {
			if err := r.Files.Materialise(ctx, s.files, dir.Tree); err != nil {
				return err
			}
		}
		if !s.continues { // or this attempt, cut off before it has one, would continue with it
			if err := r.Agents.Forget(dir); err != nil {
				return err
			}
		}
		brief, err = r.brief(ctx, s)
		return err
	})
	return dir, brief, err
}

func (r *round) brief(ctx context.Context, s start) (session.Brief, error) {
	inputs, err := r.Files.Paths(ctx, r.in.Input)
	if err != nil {
		return session.Brief{}, err
	}
	feedback, err := r.feedback(ctx, s)
	if err != nil {
		return session.Brief{}, err
	}
	persona := r.session.team.Personas[r.in.Persona]
	phases := append(r.session.team.Ancestors(r.in.Phase), r.in.Phase)
	decisions, _ := session.MergeDecisions(r.session.checkpoint.Given, session.Steps(r.session.team, phases, r.session.done(r.in.Beside)))
	return session.Brief{
		Session: r.session.key.Session, Phase: r.in.Phase, Persona: r.in.Persona, Role: persona.Role,
		Instructions: persona.Instructions, Requirement: r.session.checkpoint.Requirement,
		Decisions: decisions, Inputs: inputs, Round: s.first.Round, Attempt: s.first.Attempt,
		Feedback: feedback, MaySendBack: r.maySendBack(),
	}, nil
}

// collect stores what changed. The work is done and paid for by now, so a store
// that cannot take it is waited for.
func (r *round) collect(ctx context.Context, req session.Collect) (collected session.Collected, err error) {
	err = r.retryStore(ctx, func() error {
		if full := r.placeNow().full; full != nil {
			return filledError{full}
		}
		collected, err = r.Files.Collect(ctx, req)
		return err
	})
	return collected, err
}

// check runs one check over the tree, and collects what it may keep.
func (r *round) check(ctx context.Context, name string, dir session.WorkDir, req session.Collect, before session.Collected, outcome *session.Outcome) (session.Collected, error) {
	r.setProgress("check " + name)
	result, err := r.runCheck(ctx, name, dir)
	outcome.Log = appendCheckLog(outcome.Log, name, result.Log)
	if err != nil {
		return before, err
	}
	keep := r.Agents.Keep(name)
	if len(keep) == 0 {
		return before, nil
	}
	req.Only, req.On = keep, before.Delta
	return r.collect(ctx, req)
}

func (r *round) runCheck(ctx context.Context, name string, dir session.WorkDir) (outcome session.Outcome, err error) {
	err = r.watchingDisk(ctx, "the check "+name, true, func(ctx context.Context) (err error) {
		outcome, err = r.Agents.Check(ctx, session.CheckJob{
			Check: name, Dir: dir.Tree, Home: dir.Home, Tmp: dir.Tmp, Lock: r.held, Progress: r.setProgress,
		})
		return err
	})
	return outcome, err
}

func appendCheckLog(log []byte, name string, output []byte) []byte {
	return bytes.Join([][]byte{log, []byte("--- check " + name), output}, []byte("\n"))
}

// missing tells which of the patterns no created or changed file matches.
func missing(patterns, changed []string) *failures.Failure {
	for _, pattern := range patterns {
		found := false
		for _, path := range changed {
			if ok, err := doublestar.Match(pattern, path); err == nil && ok {
				found = true
				break
			}
		}
		if !found {
			return failures.Failf(failures.ContractViolation, "%s was neither created nor changed", pattern)
		}
	}
	return nil
}

// keepLog stores a transcript. A transcript that cannot be stored is no reason
// to lose the attempt.
func (r *round) keepLog(ctx context.Context, log []byte) spec.Digest {
	if len(log) == 0 {
		return ""
	}
	digest, err := r.Files.PutBlob(ctx, []byte(r.Agents.Mask(string(log))))
	if err != nil {
		return ""
	}
	return digest
}

func decodeFeedback(data []byte) (*failures.Failure, error) {
	var f failures.Failure
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("feedback: %w: %w", session.ErrCorrupt, err)
	}
	return &f, nil
}

// encodeFeedback stores a failure with its output, which histories must not hold.
func encodeFeedback(ctx context.Context, files Files, f failures.Failure) (spec.Digest, error) {
	data, err := json.Marshal(f)
	if err != nil {
		return "", errors.Join(session.ErrCorrupt, err)
	}
	return files.PutBlob(ctx, data)
}
