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
	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/workflows"
)

// queue is one task queue that the worker polls.
type queue struct {
	worker.Worker
	// plan is the plan for new work. A queue that is no longer polled keeps its
	// last one.
	plan atomic.Pointer[plan]
	// concurrency is how many rounds may run at a time; 0: it is no agent's queue.
	concurrency int
	// supplier supplies the slots of an agent's queue.
	supplier *slotSupplier
}

// queues are the queues that the worker polls, by name, and those that it no longer
// polls and that still have running work.
type queues struct {
	polled map[string]*queue
	// slots bounds each agent's rounds over all its queues, including earlier ones.
	slots    map[string]*slots
	retiring sync.WaitGroup
}

// withNewest makes an activity that uses the newest object at its begin, until its end.
func withNewest[With, In, Out any](make func() With, do func(With, context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (Out, error) { return do(make(), ctx, in) }
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
	o.OnFatalError = func(err error) { w.pollsRefused(name, err) }
	q := &queue{Worker: worker.New(w.options.Client, name, o)}
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

// workflowQueue serves the workflows and the steps between phases.
func (w *Worker) workflowQueue(p *plan) *queue {
	o := w.options
	options := WorkflowQueueOptions(o.Identity)
	options.Interceptors = []interceptor.WorkerInterceptor{&activityInterceptor{worker: w}}
	q := w.newQueue(spec.WorkflowQueue(o.Store.ID()), p, options)
	q.RegisterWorkflowWithOptions(workflows.TeamSession, workflow.RegisterOptions{Name: workflows.TeamSessionName})
	q.RegisterWorkflowWithOptions(breaker.Workflow, workflow.RegisterOptions{Name: breaker.WorkflowName})
	programs := programUsage{w}
	admissions := &activities.Admissions{Files: o.Store.Content, Sessions: o.Store, State: o.Store.State, Programs: programs, WorkDirs: p.workDirs, SearchAttributes: o.Attributes, Observer: o.observer(), Clock: o.Clock}
	boundaries := &activities.Boundaries{Files: o.Store.Content, Sessions: o.Store, State: o.Store.State, Programs: programs, WorkDirs: p.workDirs, Breakers: w.breakers, Observer: o.observer(), Clock: o.Clock}
	waits := &activities.BreakerWaits{Breakers: w.breakers, Heartbeats: heartbeats{o.Client}, Clock: o.Clock, Logger: o.Logger}
	reports := &activities.Reports{Breakers: w.breakers}
	register(q, activities.AdmitName, admissions.Admit)
	register(q, activities.AdvanceName, boundaries.Advance)
	register(q, activities.MarkName, boundaries.Mark)
	register(q, activities.ReworkName, boundaries.Rework)
	register(q, activities.RaiseName, boundaries.Raise)
	register(q, activities.CloseName, boundaries.Close)
	register(q, activities.StoreValueName, boundaries.StoreValue)
	register(q, activities.ReadValueName, boundaries.ReadValue)
	q.RegisterWorkflowWithOptions(workflows.PruneStore, workflow.RegisterOptions{Name: workflows.PruneStoreName})
	register(q, activities.PruneName, withNewest(func() *activities.Pruning { return w.pruning(q.plan.Load()) }, (*activities.Pruning).Prune))
	register(q, activities.AwaitBreakerName, waits.Await)
	register(q, activities.AwaitBudgetName, (&activities.BudgetWaits{State: o.Store.State, Clock: o.Clock}).Await)
	register(q, activities.ReportBreakerName, reports.Report)
	w.registerNotices(q)
	return q
}

// programUsage reads the usage that agent programs have noted, with the worker's current
// agents.
type programUsage struct{ worker *Worker }

func (p programUsage) Reported(name string, dir session.WorkDir, call string) (used, estimate cost.Usage, ok bool) {
	return p.worker.plan.Load().agents.Reported(name, dir, call)
}

// pruning prunes the worker's store.
func (w *Worker) pruning(p *plan) *activities.Pruning {
	o := w.options
	return &activities.Pruning{
		Store: o.Store, WorkDirs: p.workDirs, Namespace: o.Namespace, Keep: p.config.Retention.Keep, OlderThan: p.config.Retention.OlderThan,
		Open: func(ctx context.Context) (map[session.Key]time.Time, error) {
			return temporalutil.OpenSessions(ctx, o.Client, o.Namespace, workflows.TeamSessionName, spec.WorkflowQueue(o.Store.ID()))
		},
	}
}

// agentQueue serves one agent's rounds and merges. When it is stopped it takes no new
// work, and running work continues to its end: rounds hand over only when the worker
// itself stops.
func (w *Worker) agentQueue(name string, concurrency int, p *plan) (*queue, error) {
	o := w.options
	taken := w.queues.slots[name]
	if taken == nil {
		taken = newSlots(concurrency)
		w.queues.slots[name] = taken
	}
	mine := taken.newSupplier()
	tuner, err := mine.tuner()
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", name, err)
	}
	q := w.newQueue(spec.AgentQueue(o.Store.ID(), name), p, worker.Options{
		Identity:                         o.Identity,
		DisableWorkflowWorker:            true,
		Tuner:                            tuner,
		MaxConcurrentActivityTaskPollers: min(pollers, max(concurrency, 2)),
		WorkerStopTimeout:                math.MaxInt64,
		DisableRegistrationAliasing:      true,
		Interceptors:                     []interceptor.WorkerInterceptor{&activityInterceptor{worker: w, agent: name}},
	})
	q.concurrency, q.supplier = concurrency, mine
	rounds := func() *activities.Rounds { return w.rounds(q.plan.Load()) }
	merges := func() *activities.Merges { return &activities.Merges{Rounds: rounds()} }
	register(q, activities.RoundName, inSlot(o.Telemetry.Recorder(), name, withNewest(rounds, (*activities.Rounds).Run)))
	register(q, activities.MergeName, inSlot(o.Telemetry.Recorder(), name, withNewest(merges, (*activities.Merges).Merge)))
	return q, nil
}

// rounds returns the activities of rounds with a plan.
func (w *Worker) rounds(p *plan) *activities.Rounds {
	o := w.options
	return &activities.Rounds{
		Files: p.files.Content, WorkDirs: p.workDirs, Sessions: o.Store, State: o.Store.State, Agents: p.agents, Breakers: w.breakers,
		Heartbeats: heartbeats{o.Client}, Signals: sessionSignals{o.Client}, Observer: o.observer(), Clock: o.Clock, LostLimit: p.config.Limits.LostWorkers, Drain: o.Drain,
	}
}

// callQueue serves short calls. A stopping worker waits for their end.
func (w *Worker) callQueue(name string, slots int, p *plan) *queue {
	return w.newQueue(name, p, worker.Options{
		Identity:                           w.options.Identity,
		DisableWorkflowWorker:              true,
		MaxConcurrentActivityExecutionSize: slots,
		MaxConcurrentActivityTaskPollers:   2,
		WorkerStopTimeout:                  settle,
		DisableRegistrationAliasing:        true,
	})
}
