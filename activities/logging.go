package activities

import (
	"context"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/logs"
)

// dollar is a dollar, as an amount.
const dollar = 1_000_000_000

// spending are the attributes of what something has cost.
func spending(u cost.Usage) []any {
	return []any{"tokens", u.Tokens(), "cost_usd", float64(u.CostUSD) / dollar}
}

// runObserved does the attempt, and reports it to the observer and the log.
func (r *round) runObserved(ctx context.Context, a *attempt) (*session.RoundResult, attemptEnd, error) {
	attempt, began := len(r.rows.snapshot().Attempts)+1, r.Clock()
	ctx = logs.With(ctx, logs.Attempt, attempt)
	activity.GetLogger(ctx).Info("attempt started")
	watched, ended := r.exec.observer.AttemptBegun(ctx, AttemptInfo{
		Team: r.session.team.Name, Session: r.session.key.Session, AssignmentID: r.in.AssignmentID,
		Agent: r.agent, Round: r.in.Round, Attempt: attempt,
	})
	result, end, err := a.run(watched)
	failure, failed := asFailure(err)
	interrupted := false
	switch {
	case err == nil:
		ended(AttemptOutcome{})
	case failed && ctx.Err() == nil && !r.canRaiseBudget(*failure) && !r.waitsOut(*failure):
		ended(AttemptOutcome{Category: failure.Category})
	default:
		ended(AttemptOutcome{Interrupted: true})
		interrupted = true
	}
	logAttempt(ctx, failure, interrupted, r.Clock().Sub(began), r.spender.spent())
	return result, end, err
}

// logAttempt logs how an attempt has ended.
func logAttempt(ctx context.Context, f *failures.Failure, interrupted bool, took time.Duration, u cost.Usage) {
	outcome := []any{"outcome", "completed"}
	switch {
	case interrupted:
		outcome = []any{"outcome", "interrupted"}
	case f != nil:
		outcome = []any{"outcome", "failed", "category", f.Category, "error", textfmt.Shorten(f.Message, session.MaxMessage)}
	}
	activity.GetLogger(ctx).Info("attempt ended", slices.Concat(outcome, []any{"duration_seconds", took.Seconds()}, spending(u))...)
}

// logRequest logs that a person is needed.
func logRequest(ctx context.Context, r session.Request) {
	about := []any{"request", r.ID, "why", r.Message, logs.Phase, r.Phase}
	if r.Category != "" {
		about = append(about, "category", r.Category)
	}
	if r.Persona != "" {
		about = append(about, logs.Persona, r.Persona)
	}
	activity.GetLogger(ctx).Info("request to a person opened", append(about, "go_on_with", r.Command)...)
}

// logEnd logs how a session has ended.
func logEnd(ctx context.Context, name string, state session.State, reason string, u cost.Usage) {
	about := []any{"team", name, "status", state}
	if reason != "" {
		about = append(about, "reason", reason)
	}
	activity.GetLogger(ctx).Info("session ended", append(about, spending(u)...)...)
}
