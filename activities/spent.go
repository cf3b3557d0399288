package activities

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/team"
)

// canBeHelped tells whether an attempt has failed only because a budget of the
// session is spent, and the session has something to do about that.
func (r *round) canBeHelped(f team.Failure) bool {
	return f.Category == team.TokenBudget && r.book.refusal.Scope != "" &&
		(r.in.OnExceeded == team.OnExceededAsk || r.in.OnExceeded == team.OnExceededDegrade)
}

// budgetSpent ends the activity and not the round: no attempt is used, and a later
// activity goes on with the same one.
func (r *round) budgetSpent(ctx context.Context, f team.Failure) error {
	r.changeLog(func(l *team.RoundLog) { l.Started = false })
	if err := r.writeRecord(ctx); err != nil {
		return r.interrupted(ctx, err)
	}
	r.giveBack(ctx)
	state := team.Waiting
	if r.in.OnExceeded == team.OnExceededAsk {
		state = team.HelpIsNeeded
	}
	r.mirror(ctx, state)
	refusal := r.book.refusal
	stop := BudgetStop{
		Scope: refusal.Scope, Message: f.Message, Date: refusal.Date, Least: refusal.Least, Unsettled: refusal.Unsettled,
		Lost: r.log.Lost, Total: r.book.total(),
	}
	return temporal.NewApplicationErrorWithOptions(f.Message, team.BudgetSpent,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{stop}})
}

// cancelled ends the activity of a session that was cancelled, and says what it
// has cost.
func (r *round) cancelled() error {
	if r.book == nil {
		return temporal.NewCanceledError()
	}
	return temporal.NewCanceledError(Interruption{Total: r.book.total()})
}

// diff keeps how what an attempt left differs from what its round was given.
func (r *round) diff(ctx context.Context, files team.Digest) team.Digest {
	if files == "" || files == r.in.Input {
		return ""
	}
	text, err := r.Files.UnifiedDiff(ctx, r.in.Input, files, team.MaxDiff)
	if err != nil {
		activity.GetLogger(ctx).Warn("the next attempt is not told what this one had changed", "error", err)
		return ""
	}
	return r.keepLog(ctx, []byte(text))
}
