package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/platform/logs"
)

// activityInfo identifies a running round, merge or boundary.
type activityInfo struct {
	session, run, phase, persona, agent string
	round                               int
}

// attributes returns the log attributes that Temporal's logger does not add.
func (a activityInfo) attributes() []any {
	attributes := []any{logs.Phase, a.phase}
	if a.persona != "" {
		attributes = append(attributes, logs.Persona, a.persona)
	}
	if a.round > 0 {
		attributes = append(attributes, logs.Round, a.round)
	}
	if a.agent != "" {
		attributes = append(attributes, logs.Agent, a.agent)
	}
	return attributes
}

// withSession returns the attributes with the session and its run.
func (a activityInfo) withSession() []any {
	return append([]any{logs.Session, a.session, logs.Run, a.run}, a.attributes()...)
}

// runningWork is the set of running rounds and merges: of pointers to activityInfo.
type runningWork struct{ sync.Map }

// rounds lists the running rounds and merges, sorted by session.
func (w *runningWork) rounds() (rounds []*activityInfo) {
	for a := range w.Range {
		rounds = append(rounds, a.(*activityInfo))
	}
	slices.SortFunc(rounds, func(a, b *activityInfo) int {
		return cmp.Or(cmp.Compare(a.session, b.session), cmp.Compare(a.phase, b.phase), cmp.Compare(a.persona, b.persona))
	})
	return rounds
}

// activityInterceptor adds log attributes to activities. Activities of an agent's queue are
// also registered as running work, and get the worker's stop signal instead of their queue's.
type activityInterceptor struct {
	interceptor.WorkerInterceptorBase
	worker *Worker
	// agent is the agent of the queue; empty: not an agent's queue.
	agent string
}

// InterceptActivity wraps the execution of one activity.
func (w *activityInterceptor) InterceptActivity(_ context.Context,
	next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	return &inboundInterceptor{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, parent: w}
}

type inboundInterceptor struct {
	interceptor.ActivityInboundInterceptorBase
	parent *activityInterceptor
	// attributes are added to each log line of the activity.
	attributes []any
}

// Init wraps the outbound calls of the activity.
func (w *inboundInterceptor) Init(outbound interceptor.ActivityOutboundInterceptor) error {
	return w.Next.Init(&outboundInterceptor{ActivityOutboundInterceptorBase: interceptor.ActivityOutboundInterceptorBase{
		Next: outbound,
	}, inbound: w})
}

// ExecuteActivity runs the activity.
func (w *inboundInterceptor) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := &activityInfo{agent: w.parent.agent}
	if len(in.Args) > 0 {
		switch in := in.Args[0].(type) {
		case activities.RoundInput:
			info.phase, info.persona, info.round = in.Phase, in.Persona, in.Round
		case activities.MergeInput:
			info.phase = in.Phase
		case activities.AdvanceInput:
			info.phase = in.Phase
		case activities.ReworkInput:
			info.phase = in.Rework.From.Phase
		}
	}
	if info.phase == "" {
		return w.Next.ExecuteActivity(ctx, in)
	}
	w.attributes = info.attributes()
	if w.parent.agent == "" {
		return w.Next.ExecuteActivity(ctx, in)
	}
	run := activity.GetInfo(ctx).WorkflowExecution
	info.session, info.run = run.ID, run.RunID
	w.parent.worker.work.Store(info, nil)
	defer w.parent.worker.work.Delete(info)
	result, err := w.Next.ExecuteActivity(ctx, in)
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app.Type() == session.HandedOver {
		activity.GetLogger(ctx).Info("round handed over to another worker")
	}
	return result, err
}

type outboundInterceptor struct {
	interceptor.ActivityOutboundInterceptorBase
	inbound *inboundInterceptor
}

// GetLogger returns the SDK's logger with the attributes of the activity and the context.
func (t *outboundInterceptor) GetLogger(ctx context.Context) log.Logger {
	return log.With(t.Next.GetLogger(ctx), append(slices.Clip(t.inbound.attributes), logs.Of(ctx)...)...)
}

// GetWorkerStopChannel returns the channel that is closed when rounds have to end.
func (t *outboundInterceptor) GetWorkerStopChannel(ctx context.Context) <-chan struct{} {
	if t.inbound.parent.agent == "" {
		return t.Next.GetWorkerStopChannel(ctx)
	}
	return t.inbound.parent.worker.stopping
}
