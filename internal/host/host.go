// Package host wires a worker: it puts the store and the agents behind the
// ports that the activities declare, serves the task queues of one store, says
// in the store what it offers, and drains when it is told to stop.
package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/internal/telemetry"
	"github.com/maestro-hive/maestro/internal/temporalio"
	"github.com/maestro-hive/maestro/workflows"
)

// Agents is what a worker needs of its agents: that they work, and what it may
// publish of them.
type Agents interface {
	activities.Agents
	// OfferedAgents and OfferedChecks describe them by name.
	OfferedAgents() map[string]team.OfferedAgent
	OfferedChecks() map[string]team.Digest
}

// options say what a worker serves and with what.
type options struct {
	// Client is the connection to Temporal. The worker does not close it.
	Client client.Client
	// Namespace is the one that Client is connected to.
	Namespace string
	// Store is the store whose sessions the worker serves.
	Store *store.Store
	// Agents does the work of the agents and checks in the worker file.
	Agents Agents
	// Attributes knows the namespace's search attributes.
	Attributes activities.SearchAttributes
	// LostLimit is the worker file's limits.lost_workers.
	LostLimit int
	// Retention is the worker file's.
	Retention agent.Retention
	// Tickets is the ticket system, and IndexDelay how long its search may lag; Webhook
	// is who else hears of sessions. nil: the worker does not talk to them.
	Tickets    activities.Tickets
	IndexDelay team.Duration
	Webhook    activities.Webhook
	// WebUI is the address of Temporal's Web UI; empty where it is not known. Address
	// is Temporal's own.
	WebUI   string
	Address string
	// Seat is the worker's place among those of its store; Identity is what
	// Temporal knows it by; Version is the build's.
	Seat                    *seat
	Identity, Host, Version string
	PID                     int
	// Left are the workflow tasks that the seat's last holder did not end.
	Left [][]byte
	// Drain is how long attempts may go on after a stop before they are
	// handed over to another worker.
	Drain time.Duration
	// Telemetry takes what the worker does; nil: nobody measures.
	Telemetry *telemetry.Telemetry
	// Clock tells the time; Logger gets what happens.
	Clock  func() time.Time
	Logger *slog.Logger
}

// How a worker polls and stops.
const (
	// pollers per queue: enough that a task never waits for one.
	pollers = 16
	// workflowSlots bounds what runs side by side on the workflow queue.
	workflowSlots = 2000
	// heartbeatThrottle bounds how stale a lost worker's last report is.
	heartbeatThrottle = 5 * time.Second
	// stickyTimeout is how long a workflow task waits for a worker that is gone.
	stickyTimeout = time.Second
	// settle is what a stopping worker needs beyond its drain to tell
	// Temporal what it hands over.
	settle = 10 * time.Second
)

// Worker serves one store's queues.
type Worker struct {
	options  options
	breakers *breakers
	days     *Days
	queues   []worker.Worker
	life     life
	since    time.Time

	// offering guards the offer. Once it is withdrawn, it is not renewed.
	offering  sync.Mutex
	offer     team.Offer
	withdrawn bool
}

// newWorker wires a worker. Nothing runs yet.
func newWorker(o options) *Worker {
	w := &Worker{options: o, since: o.Clock().UTC(), life: life{stage: Starting}}
	w.offer = team.Offer{
		Schema: team.OfferSchema, Worker: o.Seat.name, Identity: o.Identity, Host: o.Host, PID: o.PID, Version: o.Version,
		Agents: o.Agents.OfferedAgents(), Checks: o.Agents.OfferedChecks(), Jira: o.Tickets != nil, Webhook: o.Webhook != nil, StartedAt: w.since,
	}
	w.breakers = &breakers{Client: &breaker.Client{Temporal: o.Client, Store: o.Store.ID()}, store: o.Store, recorder: o.Telemetry.Recorder(), logger: o.Logger}
	w.days = &Days{Temporal: o.Client, Store: o.Store.ID()}
	w.queues = append(w.queues, w.workflowQueue())
	w.queues = append(w.queues, w.outsideQueues()...)
	slots := map[string]int{}
	for name, offered := range w.offer.Agents {
		w.queues = append(w.queues, w.agentQueue(name, offered.Concurrency))
		slots[name] = offered.Concurrency
	}
	if r := o.Telemetry.Recorder(); r != nil {
		r.Serves(o.Store.ID(), slots)
	}
	return w
}

// WorkflowQueueOptions are those of the queue that sessions run on.
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

// workflowQueue serves the sessions themselves and what is between phases.
func (w *Worker) workflowQueue() worker.Worker {
	o := w.options
	q := worker.New(o.Client, team.WorkflowQueue(o.Store.ID()), WorkflowQueueOptions(o.Identity))
	q.RegisterWorkflowWithOptions(workflows.TeamSession, workflow.RegisterOptions{Name: workflows.TeamSessionName})
	q.RegisterWorkflowWithOptions(breaker.Workflow, workflow.RegisterOptions{Name: breaker.WorkflowName})
	q.RegisterWorkflowWithOptions(workflows.DailyBudget, workflow.RegisterOptions{Name: workflows.DailyBudgetName})
	sessions := o.sessions()
	admissions := &activities.Admissions{Files: o.Store, Sessions: sessions, Ledgers: o.Store, SearchAttributes: o.Attributes, Observer: o.observer(), Clock: o.Clock}
	boundaries := &activities.Boundaries{Files: o.Store, Sessions: sessions, Ledgers: o.Store, Breakers: w.breakers, Days: w.days, Observer: o.observer(), Clock: o.Clock}
	waits := &activities.BreakerWaits{Breakers: w.breakers, Sessions: sessions, Clock: o.Clock, Logger: o.Logger}
	reports := &activities.Reports{Breakers: w.breakers}
	register(q, activities.AdmitName, admissions.Admit)
	register(q, activities.AdvanceName, boundaries.Advance)
	register(q, activities.MarkName, boundaries.Mark)
	register(q, activities.ReworkName, boundaries.Rework)
	register(q, activities.RaiseName, boundaries.Raise)
	register(q, activities.CloseName, boundaries.Close)
	q.RegisterWorkflowWithOptions(workflows.PruneStore, workflow.RegisterOptions{Name: workflows.PruneStoreName})
	register(q, activities.PruneName, w.pruning().Prune)
	register(q, activities.AwaitBreakerName, waits.Await)
	register(q, activities.AwaitDayName, (&activities.DayWaits{Days: w.days, Clock: o.Clock}).Await)
	register(q, activities.ReportBreakerName, reports.Report)
	w.registerTelling(q)
	return q
}

// pruning prunes the worker's store.
func (w *Worker) pruning() *activities.Pruning {
	o := w.options
	return &activities.Pruning{
		Store: o.Store, Namespace: o.Namespace, Keep: o.Retention.Keep, OlderThan: o.Retention.OlderThan,
		Open: func(ctx context.Context) (map[team.SessionKey]time.Time, error) {
			return temporalio.OpenSessions(ctx, o.Client, o.Namespace, workflows.TeamSessionName, team.WorkflowQueue(o.Store.ID()))
		},
	}
}

// agentQueue serves one agent's rounds and the checks that go with them.
func (w *Worker) agentQueue(name string, concurrency int) worker.Worker {
	o := w.options
	q := worker.New(o.Client, team.AgentQueue(o.Store.ID(), name), worker.Options{
		Identity:                           o.Identity,
		DisableWorkflowWorker:              true,
		MaxConcurrentActivityExecutionSize: concurrency,
		MaxConcurrentActivityTaskPollers:   min(pollers, max(concurrency, 2)),
		MaxHeartbeatThrottleInterval:       heartbeatThrottle,
		WorkerStopTimeout:                  o.Drain + settle,
		DisableRegistrationAliasing:        true,
	})
	rounds := &activities.Rounds{
		Files: o.Store, Sessions: o.sessions(), Ledgers: o.Store, Agents: o.Agents, Breakers: w.breakers, Days: w.days, Observer: o.observer(),
		Clock: o.Clock, LostLimit: o.LostLimit, Drain: o.Drain,
	}
	seals := &activities.Seals{Rounds: rounds}
	register(q, activities.RoundName, inSlot(o.Telemetry.Recorder(), name, rounds.Run))
	register(q, activities.SealName, inSlot(o.Telemetry.Recorder(), name, seals.Seal))
	return q
}

func register(q worker.Worker, name activities.Name, fn any) {
	q.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: string(name)})
}

// ErrServing marks errors of a worker that had been set up: not of its input.
var ErrServing = errors.New("worker")

// Run serves until ctx ends, then drains: it takes back its offer, takes no new
// work, lets attempts go on for the drain time and hands over what is left. It
// returns nil after a complete drain.
func (w *Worker) Run(ctx context.Context) error {
	// Asked early, so that a namespace without the attributes has had time to
	// get them when the first session asks.
	w.options.Attributes.Ready(ctx)
	if err := w.publish(ctx); err != nil {
		return fmt.Errorf("%w: publish what it offers: %w", ErrServing, err)
	}
	w.reclaim(ctx)
	for i, q := range w.queues {
		if err := q.Start(); err != nil {
			stopAll(w.queues[:i])
			return errors.Join(fmt.Errorf("%w: start: %w", ErrServing, err), w.withdraw(), w.options.Seat.leave())
		}
	}
	var beside sync.WaitGroup
	beside.Go(func() { w.listOrphans(ctx) })
	beside.Go(func() { w.census(ctx) })
	defer beside.Wait()
	w.options.Logger.Info("worker serves", "store", w.options.Store.ID(), "dir", w.options.Store.Dir(), "identity", w.options.Identity)
	w.life.beat(w.options.Clock())
	w.life.enter(Serving)
	beside.Go(func() { w.renew(ctx) })
	w.goOn(ctx)
	w.life.enter(Draining)
	w.options.Logger.Info("worker drains", "drain", w.options.Drain)
	err := w.withdraw()
	stopAll(w.queues)
	return errors.Join(err, w.options.Seat.leave())
}

// renew keeps the worker's offer alive until ctx ends.
func (w *Worker) renew(ctx context.Context) {
	ticker := time.NewTicker(team.OfferRenewal)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := w.publish(ctx); err != nil {
				w.options.Logger.Warn("the worker's offer could not be renewed; new sessions may not find it", "error", err)
			}
		}
	}
}

// pulse is how often the main loop comes round at least.
const pulse = time.Second

// goOn is the main loop, until ctx ends.
func (w *Worker) goOn(ctx context.Context) {
	ticker := time.NewTicker(pulse)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.life.beat(w.options.Clock())
		}
	}
}

// publish says in the store what the worker offers.
func (w *Worker) publish(ctx context.Context) error {
	w.offering.Lock()
	defer w.offering.Unlock()
	if w.withdrawn {
		return nil
	}
	w.offer.RenewedAt = w.options.Clock().UTC()
	return w.options.Store.PutOffer(ctx, w.offer)
}

// withdraw takes the offer back, also when the worker's own context is over.
func (w *Worker) withdraw() error {
	w.offering.Lock()
	defer w.offering.Unlock()
	w.withdrawn = true
	return w.options.Store.RemoveOffer(context.Background(), w.options.Seat.name)
}

// stopAll stops the queues side by side: each waits for its own activities.
func stopAll(queues []worker.Worker) {
	var all sync.WaitGroup
	for _, q := range queues {
		all.Go(q.Stop)
	}
	all.Wait()
}
