package service

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/worker/telemetry"
	"github.com/maestro-hive/maestro/workflows"
)

// queue is one task queue that the worker polls.
type queue struct {
	worker.Worker
	// plan is the plan for new work. A queue that is no longer polled keeps its
	// last one.
	plan atomic.Pointer[plan]
	// slots bounds the rounds of an agent's queue; nil: it is no agent's.
	slots *slots
}

// queues are the queues that the worker polls, by name, and those that it no longer
// polls and that still have running work.
type queues struct {
	polled map[string]*queue
	// slots bounds each agent's rounds, including those of a queue that was polled earlier.
	slots    map[string]*slots
	retiring sync.WaitGroup
}

// activityOf is an activity.
type activityOf[In, Out any] func(context.Context, In) (Out, error)

// withNewest makes an activity that uses the newest object at its begin, until its end.
func withNewest[With, In, Out any](make func() With, do func(With, context.Context, In) (Out, error)) activityOf[In, Out] {
	return func(ctx context.Context, in In) (Out, error) { return do(make(), ctx, in) }
}

// inSlot counts an activity as one of its agent's slots in use.
func inSlot[In, Out any](r *telemetry.Recorder, agent string, do activityOf[In, Out]) activityOf[In, Out] {
	return func(ctx context.Context, in In) (Out, error) {
		defer r.SlotTaken(agent)()
		return do(ctx, in)
	}
}

func register(q worker.Worker, name activities.Name, fn any) {
	q.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: string(name)})
}

// WorkflowQueueOptions returns the options of the queue of sessions.
func WorkflowQueueOptions(identity string) worker.Options {
	return worker.Options{
		Identity:                           identity,
		MaxConcurrentActivityExecutionSize: workflowSlots,
		MaxConcurrentWorkflowTaskPollers:   pollers,
		MaxConcurrentActivityTaskPollers:   pollers,
		StickyScheduleToStartTimeout:       stickyTimeout,
		MaxHeartbeatThrottleInterval:       heartbeatThrottle,
		WorkerStopTimeout:                  settle,
		DisableRegistrationAliasing:        true,
	}
}

// newQueue makes a queue that uses a plan.
func (w *Worker) newQueue(name string, p *plan, o worker.Options) *queue {
	o.Identity, o.DisableRegistrationAliasing = w.identity, true
	o.OnFatalError = func(err error) { w.pollsRefused(name, err) }
	q := &queue{Worker: worker.New(w.Connection.Client, name, o)}
	q.plan.Store(p)
	return q
}

// pollsRefused ends the worker, because Temporal has refused a queue's polls permanently.
func (w *Worker) pollsRefused(queue string, err error) {
	select {
	case w.refused <- fmt.Errorf("queue %s is no longer polled: %w", queue, err):
	default: // one is enough
	}
}

// workflowQueue serves the workflows, and the steps between phases.
func (w *Worker) workflowQueue(p *plan) *queue {
	options := WorkflowQueueOptions(w.identity)
	options.Interceptors = []interceptor.WorkerInterceptor{&activityInterceptor{worker: w}}
	q := w.newQueue(spec.WorkflowQueue(w.store.ID()), p, options)
	for name, fn := range map[string]any{
		workflows.TeamSessionName: workflows.TeamSession, workflows.PruneStoreName: workflows.PruneStore,
		workflows.TicketName: workflows.Ticket, workflows.WebhookName: workflows.Webhook,
	} {
		q.RegisterWorkflowWithOptions(fn, workflow.RegisterOptions{Name: name})
	}
	files, programs := w.store.Content, programUsage{w}
	admissions := &activities.Admissions{
		Files: files, Sessions: w.store, State: w.store.State, Programs: programs, WorkDirs: p.workDirs,
		SearchAttributes: w.attributes, Observer: w.recorder, Clock: w.Clock,
	}
	boundaries := &activities.Boundaries{
		Files: files, Sessions: w.store, State: w.store.State, Programs: programs, WorkDirs: p.workDirs,
		Observer: w.recorder, Clock: w.Clock,
	}
	waits := &activities.BreakerWaits{Breakers: w.breakers, Heartbeats: caller{w.Connection}, Clock: w.Clock}
	tickets := &activities.TicketRecords{Store: w.store.State, Namespace: w.Connection.Namespace}
	for name, fn := range map[activities.Name]any{
		activities.AdmitName: admissions.Admit, activities.AdvanceName: boundaries.Advance,
		activities.WriteStatusName: boundaries.WriteStatus,
		activities.ReworkName:      boundaries.Rework, activities.RaiseName: boundaries.Raise, activities.CloseName: boundaries.Close,
		activities.StoreValueName: boundaries.StoreValue, activities.ReadValueName: boundaries.ReadValue,
		activities.AwaitBreakerName: waits.Await,
		activities.AwaitBudgetName:  (&activities.BudgetWaits{State: w.store.State}).Await,
		activities.LoadTicketName:   tickets.Load, activities.SaveTicketName: tickets.Save,
		activities.PruneName:  withNewest(func() *activities.Pruning { return w.pruning(q.plan.Load()) }, (*activities.Pruning).Prune),
		activities.NotifyName: withNewest(func() *activities.Notices { return w.notices(q.plan.Load()) }, (*activities.Notices).Notify),
	} {
		register(q, name, fn)
	}
	return q
}

// pruning prunes the worker's store.
func (w *Worker) pruning(p *plan) *activities.Pruning {
	namespace := w.Connection.Namespace
	return &activities.Pruning{
		Store: w.store, WorkDirs: p.workDirs, Namespace: namespace, Keep: p.config.Retention.Keep,
		OlderThan: p.config.Retention.OlderThan,
		Open: func(ctx context.Context) (map[session.Key]time.Time, error) {
			return temporalutil.OpenSessions(ctx, w.Connection, namespace, workflows.TeamSessionName, spec.WorkflowQueue(w.store.ID()))
		},
	}
}

// agentQueue serves one agent's rounds and merges. When it is stopped it takes no new
// work, and running work continues to its end: rounds hand over only when the worker
// itself stops.
func (w *Worker) agentQueue(name string, p *plan) *queue {
	if w.queues.slots[name] == nil {
		w.queues.slots[name] = newSlots()
	}
	bound := w.queues.slots[name]
	q := w.newQueue(spec.AgentQueue(w.store.ID(), name), p, worker.Options{
		DisableWorkflowWorker:            true,
		Tuner:                            bound.tuner(),
		MaxConcurrentActivityTaskPollers: pollers,
		WorkerStopTimeout:                math.MaxInt64,
		Interceptors:                     []interceptor.WorkerInterceptor{&activityInterceptor{worker: w, agent: name}},
	})
	q.slots = bound
	rounds := func() *activities.Rounds { return w.rounds(q.plan.Load()) }
	merges := func() *activities.Merges { return &activities.Merges{Rounds: rounds()} }
	register(q, activities.RoundName, inSlot(w.recorder, name, withNewest(rounds, (*activities.Rounds).Run)))
	register(q, activities.MergeName, inSlot(w.recorder, name, withNewest(merges, (*activities.Merges).Merge)))
	return q
}

// rounds returns the activities of rounds with a plan.
func (w *Worker) rounds(p *plan) *activities.Rounds {
	return &activities.Rounds{
		Files: p.content, WorkDirs: p.workDirs, Sessions: w.store, State: w.store.State, Agents: p.agents, Breakers: w.breakers,
		Heartbeats: caller{w.Connection}, Signals: caller{w.Connection}, Observer: w.recorder, Clock: w.Clock,
		LostLimit: p.config.Limits.LostWorkers, Drain: w.Drain,
	}
}

// callQueue serves short calls. A stopping worker waits for their end.
func (w *Worker) callQueue(name string, p *plan) *queue {
	return w.newQueue(name, p, worker.Options{
		DisableWorkflowWorker:              true,
		MaxConcurrentActivityExecutionSize: callSlots,
		MaxConcurrentActivityTaskPollers:   2,
		WorkerStopTimeout:                  settle,
	})
}
