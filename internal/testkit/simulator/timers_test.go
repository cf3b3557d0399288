package simulator

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// The workflow's clock and timers are the world's. The environment's clock stands still
// between its own timers, so that one which is started in between would fire early.

func (w *workflowOut) Now(workflow.Context) time.Time { return time.Now() }

func (w *workflowOut) NewTimerWithOptions(ctx workflow.Context, d time.Duration, _ workflow.TimerOptions) workflow.Future {
	future, settle := workflow.NewFuture(ctx)
	if ctx.Err() != nil {
		settle.SetError(temporal.NewCanceledError())
		return future
	}
	calm, _ := workflow.NewDisconnectedContext(ctx)
	timer := workflow.ExecuteActivity(workflow.WithActivityOptions(calm, workflow.ActivityOptions{StartToCloseTimeout: forever}),
		clockActivity, d+w.d.world.moment("timer", w.d.world.count("timer")))
	workflow.Go(calm, func(calm workflow.Context) {
		workflow.NewSelector(calm).AddFuture(timer, func(workflow.Future) { settle.Chain(timer) }).
			AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) { settle.SetError(temporal.NewCanceledError()) }).Select(calm)
	})
	return future
}

// ExecuteLocalActivity has the environment's clock continue while a local activity is at work:
// how long that is tried depends on it.
func (w *workflowOut) ExecuteLocalActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	future := w.Next.ExecuteLocalActivity(ctx, name, args...)
	calm, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(calm, func(calm workflow.Context) {
		for !future.IsReady() {
			second := w.Next.NewTimer(calm, time.Second)
			workflow.NewSelector(calm).AddFuture(future, func(workflow.Future) {}).AddFuture(second, func(workflow.Future) {}).Select(calm)
		}
	})
	return future
}

// tick waits for a time, or until the workflow is over.
func (d *delivery) tick(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.closed:
	}
}
