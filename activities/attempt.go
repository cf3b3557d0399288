package activities

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// attempt is one try of an agent, or of a person's files, at an assignment: a directory
// filled from the manifest that it starts from, work in it, and the difference collected.
type attempt struct {
	*round
	// merge is the report that the round works on; zero: it works on none.
	merge mergeReport
	// given are the conflicts of the input that the round settles.
	given conflicts
}

// attemptEnd is how an attempt ended: the outcome of its agent, and the files, which are
// empty if they are not known. It is also set if the attempt fails, because the next one may
// continue from these files.
type attemptEnd struct {
	// from is the start of the attempt, and dir the directory that was filled for it; zero: no
	// directory was filled.
	from    failures.Start
	dir     session.WorkDir
	outcome session.Outcome
	files   spec.Digest
	// elsewhere: the agent has ended on another host, which has its conversation.
	elsewhere bool
}

// run does the attempt with an agent.
func (a *attempt) run(ctx context.Context) (*session.RoundResult, attemptEnd, error) {
	basis, err := a.basis(ctx)
	if err != nil {
		return nil, attemptEnd{}, err
	}
	if err := a.readConflicts(ctx); err != nil {
		return nil, attemptEnd{}, err
	}
	end, found, err := a.endedBefore(ctx)
	if err == nil && !found {
		end, err = a.runAgent(ctx, basis)
	}
	if err != nil {
		return nil, end, err
	}
	if f := a.refused(end.outcome); f != nil {
		return nil, end, f
	}
	contract, collect := contractOf(a.session.team, a.in), a.collection(end.dir)
	collected, err := a.checks.collect(ctx, collect)
	if err != nil {
		return nil, end, err
	}
	end.files = collected.Output
	if err := a.noteCollected(ctx, collected.Output); err != nil {
		return nil, end, err
	}
	if err := a.resetToCollected(ctx, end.dir, collected, &end.outcome); err != nil {
		return nil, end, err
	}
	dropped, collected, err := a.accept(ctx, contract, end.dir, collect, collected, &end.outcome)
	if err != nil {
		return nil, end, err
	}
	return &session.RoundResult{
		BasedWork: session.BasedWork{Input: a.in.Input, Basis: &basis, Work: session.Work{Delta: collected.Delta}},
		Output:    collected.Output,
		Files:     len(collected.Changed) + len(collected.Deleted),
		SendsBack: end.outcome.SendsBack,
		Dropped:   dropped,
	}, end, nil
}

// runAgent runs the agent from what the attempt starts from, and notes its end.
func (a *attempt) runAgent(ctx context.Context, basis session.Basis) (end attemptEnd, err error) {
	start := a.startFacts(ctx, basis).decide()
	end.from = start.from()
	dir, brief, err := a.prepare(ctx, start)
	if err != nil {
		return end, err
	}
	end.dir = dir
	if !start.continues {
		a.rows.setConversation(nil)
	}
	if err := a.rows.noteStart(ctx, start.begun, a.Clock().UTC(), a.hasConversation(), basis); err != nil {
		return end, err
	}
	a.spender.begin(a.rows.attemptKey(), start.earlier)
	collect := a.collection(dir)
	job := a.job(dir, start)
	job.Ended = func(ctx context.Context, o session.Outcome) error {
		return a.noteAgentEnded(ctx, attemptEnd{from: end.from, dir: dir, outcome: o})
	}
	job.Brief, job.Deliver, job.Try, job.Breaker = brief, contractOf(a.session.team, a.in), a.try(dir, collect),
		a.breaker.forCalls(ctx)
	if end.outcome, err = a.work(ctx, job); err != nil {
		err = a.exec.dir.blame(ctx, err)
		if !a.exec.dir.isCleared() {
			end.files = a.collectLeft(ctx, err, dir, collect, &end.outcome)
		}
		return end, err
	}
	if a.rows.snapshot().Ended != nil { // before its cost was booked
		return end, nil
	}
	return end, a.noteAgentEnded(ctx, end)
}

// accept verifies the collected work: it settles the conflicts of its input and fulfils its contract. dropped are the
// versions in these conflicts that it does not have. Work that is sent back has no contract.
func (a *attempt) accept(
	ctx context.Context, c spec.Contract, dir session.WorkDir, req session.Collect, work session.Collected, o *session.Outcome,
) (dropped []string, _ session.Collected, err error) {
	if len(o.SendsBack) > 0 {
		if f := mayNotSendBack(a.session.team, a.in); f != nil {
			return nil, work, f
		}
		return nil, work, nil
	}
	if dropped, err = a.settle(ctx, work.Output, *o); err != nil {
		return nil, work, err
	}
	if work, err = a.checks.verify(ctx, c, dir, req, work, o); err != nil {
		if err = a.exec.dir.blame(ctx, err); a.exec.dir.now().wasFull { // the work may lack what the disk did not take
			a.rows.change(func(log *session.RoundLog) { log.Ended = nil })
		}
	}
	return dropped, work, err
}

// job describes the attempt to the agent.
func (a *attempt) job(dir session.WorkDir, s start) session.Job {
	persona := a.session.team.Personas[a.in.Persona]
	phase, _ := a.session.team.Phase(a.in.Phase)
	return session.Job{
		Delivery: a.delivery(phase.Deliver),
		Input:    a.in.Input, Agent: a.rows.agent, Team: a.checks.domain(), WorkDir: dir, Begun: s.begun,
		Timeout: persona.Timeout, MaxTurns: persona.MaxTurns, Lock: a.exec.lock(), Progress: a.exec.setProgress,
		Calls: a.spender, Waits: a.exec.waits, Continues: s.continues,
	}
}

// refused returns why an outcome cannot be part of the session: it settles a conflict that the round does not have.
// nil: it can.
func (a *attempt) refused(o session.Outcome) *failures.Failure {
	if len(o.SendsBack) == 0 && len(o.Kept) > 0 && a.merge.Sides == "" {
		return failures.Failf(failures.InvalidOutput, "the result has kept, but this round has no merge conflict to settle; "+
			"leave it out")
	}
	return nil
}

// readConflicts reads the report of the merge that the round has to settle, if there is one, or finds the conflicts of
// its input.
func (a *attempt) readConflicts(ctx context.Context) (err error) {
	switch {
	case a.in.Feedback != "":
		a.merge, err = fromStore(ctx, a.exec.retryStore, func() (mergeReport, error) { return readReport(ctx, a.Files, a.in.Feedback) })
	case a.in.Settles:
		err = a.exec.retryStore(ctx, func() error { return a.findGiven(ctx) })
	}
	return err
}

// findGiven finds the conflicts of the phases that the assignment builds on.
func (a *attempt) findGiven(ctx context.Context) (err error) {
	above := a.session.team.Ancestors(a.in.Phase)
	a.given = conflicts{
		base: a.session.checkpoint.Workspace, steps: session.Steps(a.session.team, above, a.session.done(nil)),
		of: "phases",
	}
	if a.given, err = findConflicts(ctx, a.Files, a.given, "", nil); err != nil {
		return err
	}
	if f := a.given.unsettled(false); f != nil {
		a.merge, err = a.given.report(ctx, a.Files, *f)
	}
	return err
}

// settle returns which versions in conflicts of the input a result does not have. An unsettled conflict is a failure.
func (a *attempt) settle(ctx context.Context, result spec.Digest, o session.Outcome) (dropped []string, err error) {
	if a.merge.Sides == "" || !a.in.Settles {
		return nil, nil
	}
	found, err := fromStore(ctx, a.exec.retryStore, func() (conflicts, error) {
		return findConflicts(ctx, a.Files, a.given, result, []session.Work{{Decisions: o.Decisions, Kept: o.Kept}})
	})
	if err != nil {
		return nil, err
	}
	if f := found.unsettled(true); f != nil {
		return nil, f
	}
	return session.Dropped(found.standings), nil
}

// prepare fills the assignment's directory with what the attempt starts from and
// writes its brief.
func (a *attempt) prepare(ctx context.Context, s start) (dir session.WorkDir, brief session.Brief, err error) {
	err = a.exec.retryStore(ctx, func() error {
		if dir, err = a.exec.dir.openWithSpace(); err != nil {
			return err
		}
		if dir.New { // what was left is on another host, or was removed
			s.asLeft = false
		}
		if dir, err = a.fill(ctx, dir, s); err != nil {
			return err
		}
		switch {
		case !s.continues: // otherwise an interrupted attempt without a conversation of its own would continue the old one
			err = a.exec.agents.Forget(dir)
		case s.restored != nil:
			err = a.restoreConversation(ctx, dir, *s.restored)
		}
		if err != nil {
			return err
		}
		brief, err = a.brief(ctx, s)
		return err
	})
	return dir, brief, err
}

// fill fills the directory with the files that the attempt starts from.
func (a *attempt) fill(ctx context.Context, dir session.WorkDir, s start) (session.WorkDir, error) {
	dirs, files := a.exec.dir.workDirs, s.files
	if a.merge.Sides != "" {
		shown, err := a.Files.Overlay(ctx, s.files, a.merge.Sides)
		if err != nil {
			return dir, err
		}
		files = shown.Output
	}
	switch inLayers := dirs.HasLayers() && a.exec.agents.Offered(a.rows.agent).Conversation != spec.InCalls; {
	case s.asLeft && inLayers:
		return a.exec.dir.hold(dirs.WithLayers(ctx, dir))
	case s.asLeft && !dirs.IsLayered(dir):
		return dir, nil
	case inLayers:
		return a.exec.dir.hold(dirs.UseLayers(ctx, dir, files, a.near()...))
	}
	if err := dirs.ForgetLayers(dir); err != nil {
		return dir, err
	}
	return dir, a.Files.Materialise(ctx, files, dir.Tree)
}

// near lists trees of the session that are similar to that of the attempt: its input, the
// input of the work before it, and the workspace.
func (a *attempt) near() []spec.Digest {
	near := []spec.Digest{a.in.Input}
	if done := a.session.checkpoint.Assignments; len(done) > 0 {
		near = append(near, done[len(done)-1].Input)
	}
	return append(near, a.session.checkpoint.Workspace)
}

func (a *attempt) brief(ctx context.Context, s start) (session.Brief, error) {
	inputs, err := a.Files.List(ctx, a.in.Input, session.MaxInputs)
	if err != nil {
		return session.Brief{}, err
	}
	feedback, err := a.feedback(ctx, s)
	if err != nil {
		return session.Brief{}, err
	}
	persona := a.session.team.Personas[a.in.Persona]
	phase, _ := a.session.team.Phase(a.in.Phase)
	return session.Brief{
		Session: a.session.key.Session, Phase: a.in.Phase, Persona: a.in.Persona, Role: persona.Role,
		Instructions: persona.Instructions, Requirement: a.session.checkpoint.Requirement,
		Decisions: a.decisions(), Inputs: inputs.Paths, InputCount: inputs.Count, Round: int(s.first.Round),
		Attempt: int(s.first.Attempt),
		LeftOut: a.leftOut(s), Feedback: feedback, Conflicts: a.merge.Conflicts, MaySendBack: maySendBack(a.session.team, a.in),
		Protected: phase.Protected,
	}, nil
}

// basis returns what the attempt is based on.
func (a *attempt) basis(ctx context.Context) (session.Basis, error) {
	persona := a.session.team.Personas[a.in.Persona]
	own, err := a.ownAgent(ctx, persona.Agent)
	if err != nil {
		return session.Basis{}, err
	}
	phase, _ := a.session.team.Phase(a.in.Phase)
	return session.BasisOf(a.in.AssignmentID, persona, own, a.session.checkpoint.Requirement, a.in.Input, a.decisions()).
		DeliveredTo(phase.Deliver), nil
}

// decisions returns the decisions that are passed to the attempt.
func (a *attempt) decisions() map[string]string {
	base := mergeBase{team: a.session.team, given: a.session.checkpoint.Given}
	return base.decisions(a.session.checkpoint, a.in.Phase, a.session.done(a.in.Beside.List))
}

// nameLeftOut reports what was left out of a collected tree.
func (a *attempt) nameLeftOut(work session.Collected, outcome *session.Outcome) {
	protected := slices.DeleteFunc(slices.Clone(work.Protected),
		func(p string) bool { return strings.HasPrefix(p, session.MergeDir+"/") })
	for _, left := range []struct {
		note  string
		paths []string
	}{
		{"changes to protected files are not used", protected},
		{"left out, because it cannot be kept", work.LeftOut},
		{"left out by ignore rules", work.Ignored},
	} {
		if len(left.paths) == 0 {
			continue
		}
		note := a.exec.agents.Mask(session.LeftOutNote(left.note, left.paths))
		outcome.LeftOut = append(outcome.LeftOut, note)
		outcome.Log = bytes.Join([][]byte{outcome.Log, []byte("--- " + a.exec.agents.Mask(session.LeftOutList(left.note, left.paths)))},
			[]byte("\n"))
		outcome.Summary = textfmt.Shorten(strings.TrimSpace(outcome.Summary+" ("+note+")"), session.MaxSummary)
	}
}

// resetToCollected makes the directory equal to the collected tree, and reports what was left out of it. They differ in
// changes to protected files, in what no tree can hold, and in what is ignored, which stays.
func (a *attempt) resetToCollected(ctx context.Context, dir session.WorkDir, work session.Collected,
	outcome *session.Outcome,
) error {
	a.nameLeftOut(work, outcome)
	if len(work.Protected)+len(work.LeftOut) == 0 {
		a.exec.dir.workDirs.NoteCollected(dir, work.Output)
		return nil
	}
	if dir.Layers != nil { // checks get trees of their own
		return nil
	}
	return a.exec.retryStore(ctx, func() error { return a.Files.Materialise(ctx, work.Output, dir.Tree) })
}

// maxLeftOutTold is how many sentences of a brief say what was left out of results.
const maxLeftOutTold = 20

// leftOut says what was left out of the assignment's earlier work, and of the work that it builds on: an agent that expects
// these files would look for them.
func (a *attempt) leftOut(s start) []string {
	var all []string
	if was, ok := a.session.undone(a.in.AssignmentID); s.failure != nil {
		all = said(all, "the last attempt", a.firstReport(*s.failure).LeftOut)
	} else if ok {
		all = said(all, "the work before", was.LeftOut)
	}
	done := a.session.done(a.in.Beside.List)
	phases := append(a.session.team.Ancestors(a.in.Phase), a.in.Phase)
	for _, id := range a.session.team.Assignments() {
		if slices.Contains(phases, id.Phase) {
			all = said(all, id.String(), done[id].LeftOut)
		}
	}
	if more := len(all) - maxLeftOutTold; more > 0 {
		all = append(all[:maxLeftOutTold], fmt.Sprintf("and %d more", more))
	}
	return all
}

// said adds notes of somebody's work.
func said(all []string, of string, notes []string) []string {
	for _, note := range notes {
		all = append(all, of+": "+note)
	}
	return all
}

// work runs the agent. It reports the attempt's failure as that of its last call, too, if the
// end of the call was not reported to the observer.
func (a *attempt) work(ctx context.Context, job session.Job) (session.Outcome, error) {
	var outcome session.Outcome
	process := a.exec.agents.Offered(job.Agent).Conversation != spec.InCalls
	err := a.exec.dir.watch(ctx, "the agent", process, a.rows.snapshot().AttemptAt, func(ctx context.Context) (err error) {
		outcome, err = a.exec.agents.Run(ctx, job)
		return err
	})
	switch failure, failed := asFailure(err); {
	case failed:
		a.spender.observer.attemptEnded(failure.Category)
	case err != nil:
		a.spender.observer.attemptEnded(failures.Cancelled)
	default:
		a.spender.observer.attemptEnded("")
	}
	return outcome, err
}

// try lets an agent run a check on the directory as it is. Files that the check leaves
// are removed, so that only the agent's changes count.
func (a *attempt) try(dir session.WorkDir, req session.Collect) func(ctx context.Context, check string) ([]byte, error) {
	return func(ctx context.Context, check string) ([]byte, error) {
		collected, err := a.checks.collect(ctx, req)
		if err != nil {
			return nil, err
		}
		outcome, _, failed := a.checks.run(ctx, check, dir, collected.Output)
		if !a.exec.dir.workDirs.HasLayers() {
			err = a.exec.retryStore(ctx, func() error { return a.Files.Materialise(ctx, collected.Output, dir.Tree) })
		}
		return outcome.Log, errors.Join(failed, err)
	}
}

// ownAgent describes the persona's own agent. The work's basis names it even if a fallback
// has worked. The worker of the fallback may not have it, so offers of workers are used.
func (a *attempt) ownAgent(ctx context.Context, name string) (own spec.OfferedAgent, err error) {
	if own = a.exec.agents.Offered(name); own.Kind != "" {
		return own, nil
	}
	err = a.exec.retryStore(ctx, func() error {
		offers, err := a.exec.state.Offers(ctx)
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

// contractOf returns the contract of the attempts of a round.
func contractOf(t spec.Team, in RoundInput) spec.Contract {
	if in.Integrating { // the merge verifies what it fixed
		return spec.Contract{}
	}
	return t.Contract(in.AssignmentID)
}

// mayNotSendBack returns the failure of an attempt that sends work back although it is not
// permitted; nil: it is.
func mayNotSendBack(t spec.Team, in RoundInput) *failures.Failure {
	switch {
	case maySendBack(t, in) != nil:
		return nil
	case in.Integrating:
		return failures.Failf(failures.InvalidOutput,
			"the result has sends_back, but this round fixes the merged work of phase %s; fix it, or report an error", in.Phase)
	}
	return failures.Failf(failures.InvalidOutput,
		"the result has sends_back, but phase %s has no sends_back in the team file; do the work, or report an error", in.Phase)
}

// maySendBack returns the phase to which the agent may send work back; nil: to none.
func maySendBack(t spec.Team, in RoundInput) *session.MaySendBack {
	phase, _ := t.Phase(in.Phase)
	if phase.SendsBack == nil || in.Integrating {
		return nil
	}
	return &session.MaySendBack{To: phase.SendsBack.To, Left: in.SendBacksLeft}
}

// maskedFailure returns a failure without secrets, in the size limits of a record.
func maskedFailure(agents Agents, f failures.Failure) failures.Failure {
	f.Message = textfmt.Shorten(agents.Mask(f.Message), session.MaxMessage)
	f.Output = textfmt.Tail(agents.Mask(f.Output), session.MaxOutput)
	return f
}

// storeLog stores a transcript. An error of the store is only logged: the attempt counts
// without its transcript.
func storeLog(ctx context.Context, files Files, agents Agents, log []byte) spec.Digest {
	if len(log) == 0 {
		return ""
	}
	digest, err := files.PutBlob(ctx, []byte(agents.Mask(string(log))))
	if err != nil {
		return ""
	}
	return digest
}
