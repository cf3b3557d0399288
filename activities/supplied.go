package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// takeSupplied ends a round with a person's files. They are the person's last word:
// what is wrong with them only another word can fix.
func (r *round) takeSupplied(ctx context.Context) (session.RoundResult, error) {
	started := r.Clock().UTC()
	if len(r.log.Attempts) > 0 { // an execution before this one has come to its end
		return session.RoundResult{}, r.supplyRefused(r.log.Attempts[0].Failure)
	}
	if f := r.refused(); f != nil {
		return session.RoundResult{}, r.refuseSupplied(ctx, *f, left{}, started)
	}
	result, l, err := r.supplied(ctx)
	if err == nil {
		result.Log, result.StartedAt, result.EndedAt = r.keepLog(ctx, l.outcome.Log), started, r.Clock().UTC()
		if err := r.recordResult(ctx, result); err != nil {
			return session.RoundResult{}, r.interrupted(ctx, err)
		}
		failpoint.Here("recorded, not completed")
		if !r.in.Integrating {
			observerOrNone(r.Observer).AssignmentEnded(r.session.team.Name, session.Supplied)
		}
		return *result, nil
	}
	failure, ok := asFailure(err)
	if !ok || ctx.Err() != nil {
		return session.RoundResult{}, r.interrupted(ctx, err)
	}
	return session.RoundResult{}, r.refuseSupplied(ctx, *failure, l, started)
}

// supplied is a person as the function from the input to a delta: the input's files
// with the person's over them, collected and held to the contract like an agent's.
func (r *round) supplied(ctx context.Context) (*session.RoundResult, left, error) {
	var l left
	dir, err := r.layOut(ctx)
	if err != nil {
		return nil, l, err
	}
	contract := r.contract()
	req := session.Collect{
		Base: r.in.Input, Dir: dir.Tree, Ignore: r.session.team.Ignore, Produces: contract.Produces, Secrets: r.Agents.Secrets(), Unseen: true,
	}
	work, err := r.collect(ctx, req)
	if err != nil {
		return nil, l, err
	}
	l.files = work.Output
	if len(work.Changed)+len(work.Deleted) == 0 && len(contract.Produces)+len(contract.Checks) > 0 {
		return nil, l, failures.Failf(failures.ContractViolation,
			"none of the supplied files differs from the input of %s; supply files that it would create or change", r.in.AssignmentID)
	}
	if len(contract.Checks) > 0 {
		if err := r.noteStart(ctx, time.Time{}); err != nil {
			return nil, l, err
		}
	}
	if work, err = r.hold(ctx, contract, dir, req, work, &l.outcome); err != nil {
		return nil, l, err
	}
	by := r.in.SuppliedBy
	if by == "" {
		by = "a person"
	}
	return &session.RoundResult{
		Delta: work.Delta, Output: work.Output, Input: r.in.Input, Files: len(work.Changed) + len(work.Deleted),
		Summary: textfmt.Shorten(fmt.Sprintf("supplied by %s: %s", r.Agents.Mask(by), firstFew(work.Changed)), session.MaxSummary),
		Total:   r.spender.total(), Lost: r.log.Lost,
	}, l, nil
}

// layOut fills the assignment's directory. A conversation that was led there is
// over: it was about other files.
func (r *round) layOut(ctx context.Context) (dir session.WorkDir, err error) {
	err = r.retryStore(ctx, func() error {
		laid, err := r.Files.Overlay(ctx, r.in.Input, r.in.Supplied)
		if err != nil {
			return err
		}
		if dir, err = r.workDir(); err != nil {
			return err
		}
		if err := r.Files.Materialise(ctx, laid.Output, dir.Tree); err != nil {
			return err
		}
		return r.Agents.Forget(dir)
	})
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt) {
		err = failures.Failf(failures.ResourceError, "the store does not have the supplied files, manifest %s: %v; supply them again", r.in.Supplied.Short(), err)
	}
	return dir, err
}

// refuseSupplied keeps what is wrong with the files, and ends the round.
func (r *round) refuseSupplied(ctx context.Context, f failures.Failure, l left, started time.Time) error {
	f.Message = textfmt.Shorten(r.Agents.Mask(f.Message), session.MaxMessage)
	f.Output, f.Final = textfmt.Tail(r.Agents.Mask(f.Output), session.MaxOutput), true
	report := session.AttemptReport{
		Attempt: 1, Failure: f, From: failures.FromFiles, Left: l.files, Diff: r.diff(ctx, l.files),
		StartedAt: started, EndedAt: r.Clock().UTC(), Log: r.keepLog(ctx, l.outcome.Log),
	}
	r.changeLog(func(l *session.RoundLog) {
		l.Attempts, l.Started, l.AttemptAt = []session.AttemptReport{report}, false, time.Time{}
		this := r.thisRound()
		this.GaveUp, this.Last = true, true
	})
	if err := r.writeRecord(ctx); err != nil {
		return r.interrupted(ctx, err)
	}
	return r.supplyRefused(f)
}

// supplyRefused is the error of a round whose files do not stand for the work.
func (r *round) supplyRefused(f failures.Failure) error {
	return unrecoverable(RoundFailure{Failure: f, Attempts: []session.AttemptFailure{}, Lost: r.log.Lost, Total: r.spender.total()}, nil)
}
