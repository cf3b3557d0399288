package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/team"
)

// How activities are executed.
const (
	// heartbeatTimeout is how long a lost worker goes unnoticed.
	heartbeatTimeout = 30 * time.Second
	// backstop bounds one attempt that neither its own timeout nor its
	// heartbeat has ended.
	backstop = 10 * 24 * time.Hour
	// localLimit is the time that a boundary gets as a local activity.
	localLimit = 5 * time.Second
	// boundaryLimit bounds one try of a boundary as an activity of its own.
	boundaryLimit = time.Minute
)

// agentContext has activities run on the workers of an agent. The activity
// decides itself when attempts are spent, so the policy never gives up.
func (s *session) agentContext(ctx workflow.Context, agent, id, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ActivityID:          id,
		TaskQueue:           team.AgentQueue(s.in.Store, agent),
		StartToCloseTimeout: backstop,
		HeartbeatTimeout:    heartbeatTimeout,
		WaitForCancellation: true,
		Summary:             summary,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:    s.team.Retry.Initial.Std(),
			BackoffCoefficient: 2,
			MaximumInterval:    s.team.Retry.Max.Std(),
		},
	})
}

// waitContext has one activity wait, however long that takes: for a breaker, or for
// money.
func waitContext(ctx workflow.Context, id, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ActivityID:          id,
		StartToCloseTimeout: 10 * backstop,
		HeartbeatTimeout:    heartbeatTimeout,
		Summary:             summary,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
	})
}

// detail reads what an activity says beside an error of a type.
func detail[T any](err error, kind string) (said T, ok bool) {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != kind || !app.HasDetails() {
		return said, false
	}
	return said, app.Details(&said) == nil
}

// atBoundary executes what happens between phases: as a local activity, which
// costs one event; and, where the store cannot be used right now, as an
// activity that waits for it and costs no further event however long that takes.
func (s *session) atBoundary(ctx workflow.Context, name activities.Name, in, out any) error {
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: localLimit,
		Summary:                string(name),
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, MaximumInterval: time.Second},
	})
	err := workflow.ExecuteLocalActivity(local, string(name), in).Get(ctx, out)
	// A worker that stops cancels its local activities, too: only the session's own
	// cancellation ends a boundary.
	if err == nil || ctx.Err() != nil && temporal.IsCanceledError(err) || isFinal(err) {
		return err
	}
	patient := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: boundaryLimit,
		Summary:             string(name) + ", waiting for the store",
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second},
	})
	return workflow.ExecuteActivity(patient, string(name), in).Get(ctx, out)
}

// isFinal tells whether an activity said that trying again is useless.
func isFinal(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.NonRetryable()
}
