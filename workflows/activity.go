package workflows

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// How activities are executed.
const (
	// heartbeatTimeout is the time after which Temporal detects a lost worker.
	heartbeatTimeout = 30 * time.Second
	// backstop bounds one attempt that neither its own timeout nor its
	// heartbeat has ended.
	backstop = 10 * 24 * time.Hour
	// localLimit bounds a boundary as a local activity.
	localLimit = 5 * time.Second
	// boundaryLimit bounds one try of a boundary as a regular activity.
	boundaryLimit = time.Minute
)

// The activities of a session.
var (
	admitSession   = newStub(activities.AdmitName, (*activities.Admissions).Admit)
	advanceSession = newStub(activities.AdvanceName, (*activities.Boundaries).Advance)
	writeStatus    = newStub(activities.WriteStatusName, (*activities.Boundaries).WriteStatus)
	reworkSession  = newStub(activities.ReworkName, (*activities.Boundaries).Rework)
	raiseBudget    = newStub(activities.RaiseName, (*activities.Boundaries).Raise)
	closeSession   = newStubNoResult(activities.CloseName, (*activities.Boundaries).Close)
	notifyPeople   = newStub(activities.NotifyName, (*activities.Notices).Notify)
	runRound       = newStub(activities.RoundName, (*activities.Rounds).Run)
	mergePhase     = newStub(activities.MergeName, (*activities.Merges).Merge)
	awaitBreaker   = newStub(activities.AwaitBreakerName, (*activities.BreakerWaits).Await)
	awaitBudget    = newStubNoResult(activities.AwaitBudgetName, (*activities.BudgetWaits).Await)
	storeValue     = newStub(activities.StoreValueName, (*activities.Boundaries).StoreValue)
	readValue      = newStub(activities.ReadValueName, (*activities.Boundaries).ReadValue)
)

// stub executes one activity, with typed input and result.
type stub[In, Out any] struct{ name activities.Name }

// none is the result of an activity that has none.
type none struct{}

// newStub takes the types from the method that implements the activity: a wrong input or result
// does not compile.
func newStub[R, In, Out any](name activities.Name, _ func(R, context.Context, In) (Out, error)) stub[In, Out] {
	return stub[In, Out]{name}
}

// newStubNoResult is newStub for a method that returns only an error.
func newStubNoResult[R, In any](name activities.Name, _ func(R, context.Context, In) error) stub[In, none] {
	return stub[In, none]{name}
}

// start schedules the activity.
func (s stub[In, Out]) start(ctx workflow.Context, in In) workflow.Future {
	return workflow.ExecuteActivity(ctx, string(s.name), in)
}

// get waits for an activity that start has scheduled.
func (s stub[In, Out]) get(ctx workflow.Context, started workflow.Future) (out Out, err error) {
	err = started.Get(ctx, &out)
	return out, err
}

// localFirst executes a step between phases: as a local activity, which costs one
// event. If the store cannot be used, it executes it as a regular activity, whose
// retries cost no further events; an input that no payload can have is tried again
// as a local activity.
func (s stub[In, Out]) localFirst(ctx workflow.Context, in In) (Out, error) {
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: localLimit,
		Summary:                string(s.name),
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, MaximumInterval: time.Second},
	})
	for {
		var out Out
		err := workflow.ExecuteLocalActivity(local, string(s.name), in).Get(local, &out)
		// A worker that stops cancels its local activities, too: only the session's own
		// cancellation ends a boundary.
		if err == nil || ctx.Err() != nil && temporal.IsCanceledError(err) || isFinal(err) {
			return out, err
		}
		data, unencoded := encode(in)
		if unencoded != nil || !activities.IsLarge(len(data)) {
			break
		}
		if err := pause(ctx, boundaryLimit, string(s.name)+", waiting for the store"); err != nil {
			return out, err
		}
	}
	regular := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: boundaryLimit,
		Summary:             string(s.name) + ", waiting for the store",
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2,
			MaximumInterval: 30 * time.Second,
		},
	})
	return s.get(ctx, s.start(regular, in))
}

// agentContext returns the context of activities on the workers of an agent. The activity
// counts attempts itself, so the retry policy has no limit.
func agentContext(ctx workflow.Context, queue string, retry spec.Retry, id, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ActivityID:          id,
		TaskQueue:           queue,
		StartToCloseTimeout: backstop,
		HeartbeatTimeout:    heartbeatTimeout,
		WaitForCancellation: true,
		Summary:             summary,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:    retry.Initial.Std(),
			BackoffCoefficient: 2,
			MaximumInterval:    retry.Max.Std(),
		},
	})
}

// waitContext returns the context of an activity that waits without a time limit: for a
// breaker, or for a budget.
func waitContext(ctx workflow.Context, id, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ActivityID:          id,
		StartToCloseTimeout: 10 * backstop,
		HeartbeatTimeout:    heartbeatTimeout,
		Summary:             summary,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2,
			MaximumInterval: 10 * time.Second,
		},
	})
}

// pause waits on a timer that the Web UI's timeline explains.
func pause(ctx workflow.Context, d time.Duration, summary string) error {
	return workflow.NewTimerWithOptions(ctx, d, workflow.TimerOptions{Summary: summary}).Get(ctx, nil)
}

// never is a future that is not ready.
func never(ctx workflow.Context) workflow.Future {
	future, _ := workflow.NewFuture(ctx)
	return future
}

// signals are the signals that the session handles, in order for each name.
type signals []*signal

type signal struct {
	channel workflow.ReceiveChannel
	// ready reports whether the session can handle them.
	ready func() bool
	// handleAll handles all signals that have arrived.
	handleAll func(workflow.Context)
	handling  bool
}

// onSignal registers the handler for the signals of a name. It is called when ready returns true.
func onSignal[T any](ctx workflow.Context, all *signals, name string, ready func() bool, handle func(workflow.Context, T)) {
	s := &signal{channel: workflow.GetSignalChannel(ctx, name), ready: ready}
	s.handleAll = func(ctx workflow.Context) {
		var argument T
		for s.channel.ReceiveAsync(&argument) {
			handle(ctx, argument)
			argument = *new(T)
		}
		s.handling = false
	}
	*all = append(*all, s)
}

// listen starts handling the signals. One coroutine waits for all names, because every event of
// the session runs each coroutine.
func (all *signals) listen(ctx workflow.Context) {
	disconnected, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(disconnected, func(disconnected workflow.Context) {
		for {
			var next *signal
			if workflow.Await(disconnected, func() bool { next = all.next(); return next != nil }) != nil {
				return
			}
			next.handling = true
			workflow.Go(ctx, next.handleAll)
		}
	})
}

// next returns signals to handle; nil if there are none.
func (all *signals) next() *signal {
	i := slices.IndexFunc(*all, func(s *signal) bool { return !s.handling && s.channel.Len() > 0 && s.ready() })
	if i < 0 {
		return nil
	}
	return (*all)[i]
}

// allHandled reports whether no signal is unread or being handled.
func (all *signals) allHandled() bool {
	return !slices.ContainsFunc(*all, func(s *signal) bool { return s.handling || s.channel.Len() > 0 })
}

// detail reads the detail of an activity's error of a type.
func detail[T any](err error, kind string) (said T, ok bool) {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != kind || !app.HasDetails() {
		return said, false
	}
	return said, app.Details(&said) == nil
}

// isFinal reports whether an activity's error is not retryable.
func isFinal(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.NonRetryable()
}
