package activities

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/failpoint"
)

// succeed records the result before it is returned to Temporal.
func (r *round) succeed(ctx context.Context, result *session.RoundResult, end attemptEnd) error {
	log := r.log.get()
	result.Summary = textfmt.Shorten(r.ports.Agents.Mask(end.outcome.Summary), session.MaxSummary)
	result.LeftOut = end.outcome.LeftOut
	result.Decisions, result.Kept = end.outcome.Decisions, end.outcome.Kept
	result.From = end.from
	result.Agent, result.Usage, result.RoundReport = r.agent, log.Usage().Add(r.spender.spent()), r.report()
	result.Attempts, result.Failures = len(log.Attempts)+1, log.Failures()
	result.StartedAt, result.EndedAt = log.AttemptAt, r.ports.Clock().UTC()
	result.Log = storeLog(ctx, r.ports.Files, r.ports.Agents, end.outcome.Log)
	if err := r.log.recordResult(ctx, result); err != nil {
		return err
	}
	r.exec.observer.RoundEnded(r.agent, "")
	failpoint.Here("recorded, not completed")
	if !r.in.Integrating && len(result.SendsBack) == 0 { // else it is done again, or was done before
		r.exec.observer.AssignmentEnded(r.session.team.Name, session.Completed)
	}
	return nil
}

// giveUp ends the round with the report of all its attempts.
func (r *round) giveUp(ctx context.Context, f failures.Failure) error {
	last := !f.AnotherRound(r.in.Round, r.in.Rounds)
	if err := r.log.recordGivenUp(ctx, last); err != nil {
		return r.interrupted(ctx, err)
	}
	log := r.log.get()
	r.exec.observer.RoundEnded(r.agent, f.Category)
	activity.GetLogger(ctx).Info("round given up", append([]any{"category", f.Category, "error", f.Message, "attempts", len(log.Attempts)}, spending(r.spender.spent())...)...)
	if last {
		r.exec.observer.AssignmentEnded(r.session.team.Name, session.Failed)
	}
	report := RoundFailure{Failure: f, Attempts: log.Failures(), RoundReport: r.report()}
	report.Unreported = r.breaker.report(ctx, &f)
	return unrecoverable(report, nil)
}

// report is what every end of the activity reports.
func (r *round) report() session.RoundReport {
	return session.RoundReport{Lost: r.log.get().Lost, Total: r.spender.spentInAll()}
}

// done returns a recorded result for the session, and reports to the breaker.
func (r *round) done(ctx context.Context, result *session.RoundResult) session.RoundResult {
	out := *result
	out.Unreported = r.breaker.report(ctx, nil)
	return out
}

// interrupted ends an execution because of an error that is not a failure of the attempt.
func (r *round) interrupted(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	r.log.noteInterrupted(ctx)
	if !resumesAfter(ctx, err) {
		r.breaker.giveBack(ctx)
	}
	if r.spender == nil {
		return executionEnd(ctx, err)
	}
	return executionEnd(ctx, err, r.report())
}

// canRaiseBudget reports whether an attempt has failed only because a budget of the
// session is exceeded, and the session can raise it or use another agent.
func (r *round) canRaiseBudget(f failures.Failure) bool {
	return f.Category == failures.TokenBudget && r.spender.lastRefusal() != nil &&
		(r.in.OnExceeded == spec.OnExceededAsk || r.in.OnExceeded == spec.OnExceededDegrade)
}

// budgetSpent ends the activity and not the round: no attempt is used, and a later
// activity continues with the same one.
func (r *round) budgetSpent(ctx context.Context, f failures.Failure) error {
	r.log.change(func(l *session.RoundLog) {
		l.Started = false
		l.Pause(r.ports.Clock().UTC(), f.Category)
	})
	if err := r.log.write(ctx); err != nil {
		return r.interrupted(ctx, err)
	}
	r.breaker.giveBack(ctx)
	stop := *r.spender.lastRefusal()
	stop.Message, stop.RoundReport = f.Message, r.report()
	return temporal.NewApplicationErrorWithOptions(f.Message, session.BudgetSpent,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{stop}})
}

// diff stores the difference between an attempt's files and the round's input.
func (r *round) diff(ctx context.Context, files spec.Digest) spec.Digest {
	if files == "" || files == r.in.Input {
		return ""
	}
	text, err := r.ports.Files.UnifiedDiff(ctx, r.in.Input, files, session.MaxDiff)
	if err != nil {
		activity.GetLogger(ctx).Warn("the next attempt does not get the changes of this one", "error", err)
		return ""
	}
	return storeLog(ctx, r.ports.Files, r.ports.Agents, []byte(text))
}
