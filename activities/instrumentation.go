package activities

import (
	"context"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/logs"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// observedAttempt does the attempt, and reports it to the observer and the log.
func (r *round) observedAttempt(ctx context.Context) (*session.RoundResult, left, error) {
	attempt, began := len(r.log.Attempts)+1, r.Clock()
	ctx = logs.With(ctx, logs.Attempt, attempt)
	activity.GetLogger(ctx).Info("attempt started")
	watched, ended := observerOrNone(r.Observer).AttemptBegun(ctx, Attempt{
		Team: r.session.team.Name, Session: r.session.key.Session, AssignmentID: r.in.AssignmentID,
		Agent: r.agent(), Round: r.in.Round, Attempt: attempt,
	})
	result, left, err := r.attempt(watched)
	failure, failed := asFailure(err)
	interrupted := false
	switch {
	case err == nil:
		ended(AttemptEnd{})
	case failed && ctx.Err() == nil && !r.canBeHelped(*failure) && !r.waitsOut(*failure):
		ended(AttemptEnd{Category: failure.Category})
	default:
		ended(AttemptEnd{Interrupted: true})
		interrupted = true
	}
	logAttempt(ctx, failure, interrupted, r.Clock().Sub(began), r.spender.spent())
	return result, left, err
}

// work runs the agent. The attempt's failure is that of its last call, too, if the call
// is still open for the observer.
func (r *round) work(ctx context.Context, job session.Job) (session.Outcome, error) {
	var outcome session.Outcome
	process := r.Agents.Offered(job.Agent).Conversation != spec.InJournal
	err := r.watchingDisk(ctx, "the agent", process, func(ctx context.Context) (err error) {
		outcome, err = r.Agents.Run(ctx, job)
		return err
	})
	switch failure, failed := asFailure(err); {
	case failed:
		r.spender.endObserved(failure.Category)
	case err != nil:
		r.spender.endObserved(failures.Cancelled)
	default:
		r.spender.endObserved("")
	}
	return outcome, err
}
