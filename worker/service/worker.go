// Package service is the worker. It implements the ports of the activities with the
// store and the agents, serves the task queues of one store, publishes the worker's
// offer in the store, and drains when it is stopped.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/diskspace"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/telemetry"
)

// Agents are a worker's agents: they do the work of activities, and describe what the
// worker publishes of them.
type Agents interface {
	activities.Agents
	// OfferedAgents and OfferedChecks describe them by name.
	OfferedAgents() map[string]spec.OfferedAgent
	OfferedChecks() map[string]spec.Digest
	// Isolation describes how agents and checks are isolated from the host.
	Isolation() spec.Isolation
}

// options configure a worker.
type options struct {
	// Client is the connection to Temporal. The worker does not close it.
	Client client.Client
	// Namespace is the one that Client is connected to.
	Namespace string
	// Store is the store whose sessions the worker serves.
	Store *store.Store
	// Plan is the loaded worker file. Reread loads it again on a signal from Reloads; nil: it is
	// never reloaded.
	Plan    *plan
	Reread  func(now *plan) (*plan, error)
	Reloads <-chan os.Signal
	// File names the worker file.
	File string
	// Attributes are the namespace's search attributes.
	Attributes activities.SearchAttributes
	// Address is the address of Temporal.
	Address string
	// Slot is the worker's slot; Identity is its identity in Temporal; Version and Commit are
	// of the build.
	Slot                            *workerSlot
	Identity, Host, Version, Commit string
	PID                             int
	// Drain is how long attempts may continue after a stop before they are
	// handed over to another worker.
	Drain time.Duration
	// Gateway is the gateway to providers for agents. The worker closes it.
	Gateway *agent.Gateway
	// Telemetry records metrics and traces; nil: none.
	Telemetry *telemetry.Telemetry
	// Clock returns the current time.
	Clock  func() time.Time
	Logger *slog.Logger
}

// How a worker polls and stops.
const (
	// pollers per queue: enough that a task never waits for one.
	pollers = 16
	// workflowSlots bounds the concurrent activities of the workflow queue.
	workflowSlots = 2000
	// heartbeatThrottle bounds the age of the last heartbeat of a wait. Rounds send their own
	// heartbeats: see heartbeats.go.
	heartbeatThrottle = 5 * time.Second
	// stickyTimeout is how long a workflow task waits for a worker that is gone.
	stickyTimeout = time.Second
	// settle is the time after the drain for handing rounds over.
	settle = 10 * time.Second
	// gcPercent is GOGC where the environment does not set it. A worker has little in memory, 20 to
	// 100 MB, and would collect garbage several times a second.
	gcPercent = 200
)

// Worker serves one store's queues.
type Worker struct {
	options  options
	breakers *breakers
	queues   queues
	offer    publishedOffer
	health   health
	masks    masks
	work     runningWork
	// stopping is closed when the worker begins to drain.
	stopping chan struct{}
	// refused receives the error that stopped the polling of a queue; it ends the worker.
	refused chan error
	// plan is the newest; only the main loop changes it.
	plan atomic.Pointer[plan]
}

// newWorker wires a worker. Nothing runs yet.
func newWorker(o options) *Worker {
	now := o.Clock().UTC()
	w := &Worker{options: o, stopping: make(chan struct{}), refused: make(chan error, 1)}
	w.plan.Store(o.Plan)
	w.masks.add(o.Plan.agents)
	w.offer = publishedOffer{store: o.Store, clock: o.Clock, logger: o.Logger, offer: o.Plan.offer(spec.Offer{
		Worker: o.Slot.name, Identity: o.Identity, Host: o.Host, PID: o.PID, Version: o.Version, StartedAt: now,
	})}
	w.health = health{
		about: Health{Status: "ok", Version: o.Version, Commit: o.Commit, Identity: o.Identity, Store: o.Store.ID(), Since: now},
		dir:   o.Store.Dir(), address: o.Address, clock: o.Clock, recorder: o.Telemetry.Recorder(),
		checkTemporal: func(ctx context.Context) error { return w.gauges().delivered(ctx) }, writeStore: w.offer.publish, stage: Starting, file: WorkerFile{Path: o.File},
	}
	w.breakers = &breakers{Client: &breaker.Client{Temporal: o.Client, Store: o.Store.ID()}, store: o.Store, recorder: o.Telemetry.Recorder(), logger: o.Logger}
	w.queues = queues{polled: map[string]*queue{}, slots: map[string]*slots{}}
	if r := o.Telemetry.Recorder(); r != nil {
		r.Serves(o.Store.ID(), o.Plan.slots())
	}
	w.health.fileRead(nil)
	return w
}

// Mask replaces the secrets of all worker files loaded so far.
func (w *Worker) Mask(text string) string { return w.masks.Mask(text) }

// ErrServing marks errors of a worker that had been set up: not of its input.
var ErrServing = errors.New("worker")

// Run serves until ctx ends, then drains: it withdraws its offer, takes no new work,
// lets attempts continue for the drain time and hands over the others. It returns nil
// after a complete drain. If Temporal refuses its polls permanently, like those of a
// deleted namespace, it also drains, and returns an [ErrServing]: a supervisor may
// restart it.
func (w *Worker) Run(ctx context.Context) error {
	defer w.options.Store.Close()   //nolint:errcheck // everything is committed
	defer w.options.Gateway.Close() //nolint:errcheck // no attempt is under way
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	// Called early, so that a namespace without the attributes has them when the
	// first session starts.
	w.options.Attributes.Ready(ctx)
	// Before the offer is published: otherwise sessions could wait for a worker that fails to start.
	polled, err := w.missingQueues(w.plan.Load())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrServing, err)
	}
	switch err := w.offer.publish(ctx); {
	case diskspace.IsFull(err): // the worker may have to free space
		w.options.Logger.Warn("the worker's offer is not published yet; new sessions cannot use it", "error", err)
	case err != nil:
		return fmt.Errorf("%w: publish what it offers: %w", ErrServing, err)
	}
	w.offer.compare(ctx)
	(&reclaimer{client: w.options.Client, namespace: w.options.Namespace, store: w.options.Store.ID(), identity: w.options.Identity, logger: w.options.Logger}).reclaim(ctx)
	if err := w.start(polled); err != nil {
		w.queues.retiring.Wait()
		return errors.Join(fmt.Errorf("%w: start: %w", ErrServing, err), w.offer.withdraw(), w.options.Slot.release())
	}
	w.follow(w.plan.Load(), polled)
	var beside sync.WaitGroup
	beside.Go(func() { listOrphans(ctx, w.options) })
	beside.Go(func() {
		if err := w.options.Store.MirrorAll(ctx); err != nil {
			w.options.Logger.Warn("the mirror lacks checkpoints; `maestro checkpoints verify --all` says which", "error", err)
		}
	})
	if w.options.Telemetry.Measures() {
		beside.Go(func() { w.gauges().update(ctx) })
	}
	working, endWork := context.WithCancel(context.WithoutCancel(ctx))
	beside.Go(func() { w.trimCaches(working) })
	beside.Go(func() { w.backUp(ctx) })
	defer beside.Wait()
	defer endWork() // agents still work while the worker drains
	w.options.Logger.Info("worker serves", "store", w.options.Store.ID(), "dir", w.options.Store.Dir(), "identity", w.options.Identity)
	w.health.beat()
	w.health.enter(Serving)
	beside.Go(func() { w.offer.renew(ctx) })
	refused := w.mainLoop(ctx)
	end()
	w.health.enter(Draining)
	return errors.Join(refused, w.stop(), w.options.Slot.release())
}

// stop withdraws the worker's offer and drains it. A store that does not answer delays the first
// only: agents are stopped in time.
func (w *Worker) stop() error {
	withdrawn := make(chan error, 1)
	go func() { withdrawn <- w.offer.withdraw() }()
	drained := w.drain()
	if err := <-withdrawn; err != nil {
		return errors.Join(drained, fmt.Errorf("%w: withdraw the offer: %w", ErrServing, err))
	}
	return drained
}

// trimEvery is how often the disk of the caches is looked at.
const trimEvery = time.Second

// trimCaches keeps the caches below their limits until ctx ends.
func (w *Worker) trimCaches(ctx context.Context) {
	ticker := time.NewTicker(trimEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.plan.Load().caches.Trim(ctx)
		}
	}
}

// pulse bounds the time of one iteration of the main loop.
const pulse = time.Second

// mainLoop runs until ctx ends or Temporal refuses polls.
func (w *Worker) mainLoop(ctx context.Context) error {
	ticker := time.NewTicker(pulse)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.refused:
			w.options.Logger.Error("worker ends: Temporal refuses its polls permanently", "error", err)
			return fmt.Errorf("%w: %w", ErrServing, err)
		case <-ticker.C:
		case <-w.options.Reloads:
			w.reload(ctx)
		}
		w.health.beat()
	}
}
