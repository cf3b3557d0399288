package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// takeSupplied ends a round with a person's files. Only other files can fix a failure, so there
// is one attempt.
func (r *round) takeSupplied(ctx context.Context) (session.RoundResult, error) {
	started := r.Clock().UTC()
	if attempts := r.rows.snapshot().Attempts; len(attempts) > 0 { // an execution before this one has come to its end
		return session.RoundResult{}, r.supplyRefused(attempts[0].Failure)
	}
	if f := r.refusal(); f != nil {
		return session.RoundResult{}, r.refuseSupplied(ctx, *f, attemptEnd{}, started)
	}
	result, end, err := r.suppliedWhenPossible(ctx)
	if err == nil {
		result.Log, result.StartedAt, result.EndedAt = storeLog(ctx, r.Files, r.Agents, end.outcome.Log), started,
			r.Clock().UTC()
		if err := r.rows.recordResult(ctx, result); err != nil {
			return session.RoundResult{}, r.interrupted(ctx, err)
		}
		if !r.in.Integrating {
			r.exec.observer.AssignmentEnded(r.session.team.Name, session.Supplied)
		}
		return *result, nil
	}
	failure, ok := asFailure(err)
	if !ok || ctx.Err() != nil {
		return session.RoundResult{}, r.interrupted(ctx, err)
	}
	return session.RoundResult{}, r.refuseSupplied(ctx, *failure, end, started)
}

// suppliedWhenPossible tries the files again while the host fails, which says nothing about them.
func (r *round) suppliedWhenPossible(ctx context.Context) (*session.RoundResult, attemptEnd, error) {
	for wait := storeWait; ; wait = min(2*wait, storeWaitMax) {
		result, end, err := (&attempt{round: r}).supplied(ctx)
		f, ok := asFailure(err)
		if !ok || !f.MayPass() || ctx.Err() != nil {
			return result, end, err
		}
		r.exec.setProgress(textfmt.Shorten(maskedFailure(r.Agents, *f).Message, session.MaxMessage))
		if err := sleep(ctx, wait); err != nil {
			return nil, end, err
		}
	}
}

// supplied does the attempt with a person's files on top of the input's. They are collected and
// verified by the contract like an agent's.
func (a *attempt) supplied(ctx context.Context) (*session.RoundResult, attemptEnd, error) {
	var end attemptEnd
	dir, err := a.layOut(ctx)
	if err != nil {
		return nil, end, err
	}
	contract := contractOf(a.session.team, a.in)
	req := session.Collect{
		Base: a.in.Input, Dir: dir.Tree, Ignore: a.session.team.Ignore, Produces: contract.Produces, Secrets: a.exec.agents.Secrets(),
	}
	work, err := a.checks.collect(ctx, req)
	if err != nil {
		return nil, end, err
	}
	end.files = work.Output
	a.nameLeftOut(work, &end.outcome)
	if len(work.Changed)+len(work.Deleted) == 0 && len(contract.Produces)+len(contract.Checks) > 0 {
		return nil, end, failures.Failf(failures.ContractViolation,
			"none of the supplied files differs from the input of %s; supply files that it would create or change", a.in.AssignmentID)
	}
	if len(contract.Checks) > 0 {
		if err := a.rows.noteStart(ctx, time.Time{}, a.Clock().UTC(), false, session.Basis{Input: a.in.Input}); err != nil {
			return nil, end, err
		}
	}
	if work, err = a.checks.verify(ctx, contract, dir, req, work, &end.outcome); err != nil {
		return nil, end, err
	}
	by := cmp.Or(a.in.SuppliedBy, "a person")
	return &session.RoundResult{
		BasedWork: session.BasedWork{Input: a.in.Input, Work: session.Work{Delta: work.Delta}}, Output: work.Output,
		Files: len(work.Changed) + len(work.Deleted),
		Summary: textfmt.Shorten(fmt.Sprintf("supplied by %s: %s", a.exec.agents.Mask(by), firstFew(work.Changed)),
			session.MaxSummary),
		LeftOut:     end.outcome.LeftOut,
		RoundReport: session.RoundReport{Lost: a.rows.snapshot().Lost, Total: a.spender.spentInAll()},
	}, end, nil
}

// layOut fills the assignment's directory. It ends a conversation in the
// directory, which was about other files.
func (a *attempt) layOut(ctx context.Context) (dir session.WorkDir, err error) {
	err = a.exec.retryStore(ctx, func() error {
		tree := a.in.Supplied
		if !a.in.SuppliedWhole {
			laid, err := a.Files.Overlay(ctx, a.in.Input, tree)
			if err != nil {
				return err
			}
			tree = laid.Output
		}
		if dir, err = a.exec.dir.open(); err != nil {
			return err
		}
		if err := a.exec.dir.workDirs.ForgetLayers(dir); err != nil {
			return err
		}
		if err := a.Files.Materialise(ctx, tree, dir.Tree); err != nil {
			return err
		}
		return a.exec.agents.Forget(dir)
	})
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt) {
		lost := failures.Failf(failures.ResourceError, "the store does not have the supplied files, manifest %s: %v; supply them again",
			a.in.Supplied.Short(), err)
		lost.Final = true
		err = lost
	}
	return dir, err
}

// refuseSupplied records the failure of the files, and ends the round.
func (r *round) refuseSupplied(ctx context.Context, f failures.Failure, end attemptEnd, started time.Time) error {
	f = maskedFailure(r.Agents, f)
	f.Final = true
	report := session.AttemptReport{
		Attempt: 1, Failure: f, From: failures.FromFiles, Files: end.files, Diff: r.diff(ctx, end.files),
		StartedAt: started, EndedAt: r.Clock().UTC(), Log: storeLog(ctx, r.Files, r.Agents, end.outcome.Log),
	}
	r.rows.change(func(l *session.RoundLog) {
		l.Attempts, l.AtWork, l.AttemptAt = []session.AttemptReport{report}, false, time.Time{}
	})
	if err := r.rows.recordGivenUp(ctx, true); err != nil {
		return r.interrupted(ctx, err)
	}
	return r.supplyRefused(f)
}

// supplyRefused returns the error of a round whose supplied files failed.
func (r *round) supplyRefused(f failures.Failure) error {
	return unrecoverable(RoundFailure{Failure: f, Attempts: []session.AttemptFailure{}, RoundReport: r.report()}, nil)
}
