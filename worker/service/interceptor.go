package service

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/logs"
	"github.com/maestro-hive/maestro/internal/session"
)

// at is a round, or a merge, at work here.
type at struct {
	session, run, phase, persona, agent string
	round                               int
}

// attributes are those of the round that Temporal's logger does not have.
func (a at) attributes() []any {
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

// named are the attributes with the session's.
func (a at) named() []any {
	return append([]any{logs.Session, a.session, logs.Run, a.run}, a.attributes()...)
}

// work is what the worker has under way.
type work struct {
	mu  sync.Mutex
	has map[*at]bool
}

func (w *work) begin(a *at) (ended func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.has == nil {
		w.has = map[*at]bool{}
	}
	w.has[a] = true
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.has, a)
	}
}

// rounds lists the rounds and merges under way, by session.
func (w *work) rounds() []at {
	w.mu.Lock()
	defer w.mu.Unlock()
	var rounds []at
	for a := range maps.Keys(w.has) {
		rounds = append(rounds, *a)
	}
	slices.SortFunc(rounds, func(a, b at) int {
		return cmp.Or(cmp.Compare(a.session, b.session), cmp.Compare(a.phase, b.phase), cmp.Compare(a.persona, b.persona))
	})
	return rounds
}

// watch has the lines of activities say what they are about. Those of an agent's
// queue count as work under way, and hear of the worker's stop, not of their
// queue's.
type watch struct {
	interceptor.WorkerInterceptorBase
	worker *Worker
	// agent is whose queue it is; empty: no agent's.
	agent string
}

// InterceptActivity watches one activity.
func (w *watch) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &watched{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, watch: w}
}

type watched struct {
	interceptor.ActivityInboundInterceptorBase
	watch *watch
	// about are the attributes of all lines of the activity.
	about []any
}

// Init puts its logger in the place of the SDK's.
func (w *watched) Init(outbound interceptor.ActivityOutboundInterceptor) error {
	return w.Next.Init(&telling{ActivityOutboundInterceptorBase: interceptor.ActivityOutboundInterceptorBase{Next: outbound}, watched: w})
}

// ExecuteActivity does the activity.
func (w *watched) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	a := &at{agent: w.watch.agent}
	if len(in.Args) > 0 {
		switch in := in.Args[0].(type) {
		case activities.RoundInput:
			a.phase, a.persona, a.round = in.Phase, in.Persona, in.Round
		case activities.MergeInput:
			a.phase = in.Phase
		case activities.AdvanceInput:
			a.phase = in.Phase
		case activities.ReworkInput:
			a.phase = in.Rework.From.Phase
		}
	}
	if a.phase == "" {
		return w.Next.ExecuteActivity(ctx, in)
	}
	w.about = a.attributes()
	if w.watch.agent == "" {
		return w.Next.ExecuteActivity(ctx, in)
	}
	run := activity.GetInfo(ctx).WorkflowExecution
	a.session, a.run = run.ID, run.RunID
	defer w.watch.worker.work.begin(a)()
	result, err := w.Next.ExecuteActivity(ctx, in)
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app.Type() == session.HandedOver {
		activity.GetLogger(ctx).Info("round handed over to another worker")
	}
	return result, err
}

type telling struct {
	interceptor.ActivityOutboundInterceptorBase
	watched *watched
}

// GetLogger is the SDK's logger with what the activity's and the context's lines are
// about.
func (t *telling) GetLogger(ctx context.Context) log.Logger {
	return log.With(t.Next.GetLogger(ctx), append(slices.Clip(t.watched.about), logs.Of(ctx)...)...)
}

// GetWorkerStopChannel is closed when rounds have to come to an end.
func (t *telling) GetWorkerStopChannel(ctx context.Context) <-chan struct{} {
	if t.watched.watch.agent == "" {
		return t.Next.GetWorkerStopChannel(ctx)
	}
	return t.watched.watch.worker.stopping
}
