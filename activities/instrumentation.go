package activities

import (
	"context"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/logs"
	"github.com/maestro-hive/maestro/internal/session"
)

// observedAttempt does the attempt, and reports it to the observer and the log.
func (r *round) observedAttempt(ctx context.Context) (*session.RoundResult, attemptEnd, error) {
	attempt, began := len(r.log.get().Attempts)+1, r.ports.Clock()
	ctx = logs.With(ctx, logs.Attempt, attempt)
	activity.GetLogger(ctx).Info("attempt started")
	watched, ended := r.exec.observer.AttemptBegun(ctx, Attempt{
		Team: r.session.team.Name, Session: r.session.key.Session, AssignmentID: r.in.AssignmentID,
		Agent: r.agent, Round: r.in.Round, Attempt: attempt,
	})
	result, end, err := r.attempt().run(watched)
	failure, failed := asFailure(err)
	interrupted := false
	switch {
	case err == nil:
		ended(AttemptEnd{})
	case failed && ctx.Err() == nil && !r.canBeHelped(*failure) && !r.outage.waitsOut(*failure):
		ended(AttemptEnd{Category: failure.Category})
	default:
		ended(AttemptEnd{Interrupted: true})
		interrupted = true
	}
	logAttempt(ctx, failure, interrupted, r.ports.Clock().Sub(began), r.spender.spent())
	return result, end, err
}

// attempt is the next one of the round.
func (r *round) attempt() *attempt {
	return &attempt{
		exec: r.exec, files: r.ports.Files, checks: checks{r.exec, r.ports.Files}, log: r.log, spender: r.spender,
		session: r.session, in: r.in, clock: r.ports.Clock,
	}
}
