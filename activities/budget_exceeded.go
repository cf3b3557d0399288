package activities

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// canBeHelped reports whether an attempt has failed only because a budget of the
// session is spent, and the session has something to do about that.
func (r *round) canBeHelped(f failures.Failure) bool {
	return f.Category == failures.TokenBudget && r.spender.refusal.Scope != "" &&
		(r.in.OnExceeded == spec.OnExceededAsk || r.in.OnExceeded == spec.OnExceededDegrade)
}

// budgetSpent ends the activity and not the round: no attempt is used, and a later
// activity continues with the same one.
func (r *round) budgetSpent(ctx context.Context, f failures.Failure) error {
	r.changeLog(func(l *session.RoundLog) { l.Started = false })
	if err := r.writeRecord(ctx); err != nil {
		return r.interrupted(ctx, err)
	}
	r.giveBack(ctx)
	refusal := r.spender.refusal
	stop := BudgetStop{
		Scope: refusal.Scope, Message: f.Message, Date: refusal.Date, Least: refusal.Least, Unsettled: refusal.Unsettled,
		Lost: r.log.Lost, Total: r.spender.total(),
	}
	return temporal.NewApplicationErrorWithOptions(f.Message, session.BudgetSpent,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{stop}})
}

// cancelled ends the activity of a session that was cancelled, and says what it
// has cost.
func (r *round) cancelled() error {
	if r.spender == nil {
		return temporal.NewCanceledError()
	}
	return temporal.NewCanceledError(Interruption{Total: r.spender.total()})
}

// diff keeps how what an attempt left differs from what its round was given.
func (r *round) diff(ctx context.Context, files spec.Digest) spec.Digest {
	if files == "" || files == r.in.Input {
		return ""
	}
	text, err := r.Files.UnifiedDiff(ctx, r.in.Input, files, session.MaxDiff)
	if err != nil {
		activity.GetLogger(ctx).Warn("the next attempt does not get the changes of this one", "error", err)
		return ""
	}
	return r.keepLog(ctx, []byte(text))
}
