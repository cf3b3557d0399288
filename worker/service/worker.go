package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/platform/diskspace"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/worker/telemetry"
	"github.com/maestro-hive/maestro/workflows"
)

// How a worker polls and stops.
const (
	// DefaultDrain is how long a stopping worker lets attempts continue.
	DefaultDrain = 20 * time.Second
	// pollers per queue: enough that a task never waits for one.
	pollers = 16
	// workflowSlots bounds the concurrent activities of the workflow queue.
	workflowSlots = 2000
	// heartbeatThrottle bounds the age of the last heartbeat of a wait. Rounds send their own
	// heartbeats: see ports.go.
	heartbeatThrottle = 5 * time.Second
	// stickyTimeout is how long a workflow task waits for a worker that is gone.
	stickyTimeout = time.Second
	// settle is the time after the drain for handing rounds over.
	settle = 10 * time.Second
	// pulse bounds the time of one iteration of the main loop.
	pulse = time.Second
	// trimEvery is how often the disk of the caches is looked at, and collectEvery how often unused
	// layers are removed.
	trimEvery    = time.Second
	collectEvery = 10 * time.Minute
)

// ErrServing marks errors of a worker that had been set up: not of its input.
var ErrServing = errors.New("worker")

// Setup has the parameters of a worker process.
type Setup struct {
	// Config is the parsed worker file.
	Config agent.Config
	// File is the worker file's path, to reload it at a signal from Reloads; empty:
	// it is never reloaded.
	File    string
	Reloads <-chan os.Signal
	// Agents does the work of the worker file's agents and checks; nil: they do it themselves.
	Agents activities.Agents
	// WebUI is the address of Temporal's Web UI, if the worker file has none.
	WebUI string
	// StateDir is the store's directory. The store is created if it does not exist.
	StateDir string
	// Location is where the store is besides its directory.
	Location store.Location
	// Connection to Temporal. The caller closes it.
	Connection *temporalutil.Connection
	// Getenv reads the worker's environment. Agents get parts of it.
	Getenv func(string) string
	// Host and PID name the process. Version is the version of the build, without
	// blanks, and Commit its commit, if that is known.
	Host            string
	PID             int
	Version, Commit string
	// Drain is how long attempts may continue after a stop before they are handed over to another worker.
	Drain time.Duration
	// Telemetry records metrics and traces; nil: none. It must have instrumented
	// the connection, too. The caller closes it.
	Telemetry *telemetry.Telemetry
	// health answers health checks, maybe before the worker exists; nil: Build makes it.
	health *health
	// Clock returns the current time.
	Clock  func() time.Time
	Logger *slog.Logger
}

// Worker serves one store's queues.
type Worker struct {
	Setup
	store   *store.Store
	gateway *agent.Gateway
	slot    *workerSlot
	// identity is the worker's identity in Temporal.
	identity   string
	attributes activities.SearchAttributes
	breakers   *breaker.Breakers
	queues     queues
	offer      publishedOffer
	work       runningWork
	recorder   *telemetry.Recorder
	// stopping is closed when the worker begins to drain.
	stopping chan struct{}
	// refused receives the error that stopped the polling of a queue; it ends the worker.
	refused chan error
	// plan is the newest one. Only the main loop changes it.
	plan atomic.Pointer[plan]
	// secrets are those of all plans so far, because running work may still have those of an older one, and the renewed ones of
	// deliveries. They change under masking.
	secrets atomic.Pointer[secrets.Set]
	masking sync.Mutex
}

// Build makes the worker: its store, its agents and its slot among the store's
// workers. It starts nothing.
func (s Setup) Build() (*Worker, error) {
	st, err := store.Create(s.StateDir, store.Options{Clock: s.Clock, Location: s.Location})
	if err == nil {
		err = st.State.Check(context.Background())
	}
	if err != nil {
		return nil, err
	}
	w := &Worker{
		Setup: s, store: st, gateway: agent.NewGateway(s.Clock, s.Logger), recorder: s.Telemetry.Recorder(),
		queues:   queues{polled: map[string]*queue{}, slots: map[string]*slots{}},
		stopping: make(chan struct{}), refused: make(chan error, 1),
	}
	w.mask(s.Location.Secrets()...)
	p, err := w.newPlan(s.Config.WithDefaults())
	if err != nil {
		return nil, err
	}
	host := s.Host
	if id := st.HostID(); id != "" { // hosts that share the database may have equal names
		host += "-" + id
	}
	if w.slot, err = acquireSlot(filepath.Join(st.Dir(), "workers"), host); err != nil {
		return nil, err
	}
	w.identity = identity(st.ID(), w.slot, s.Version)
	w.attributes = temporalutil.NewSearchAttributes(s.Connection, s.Connection.Namespace, s.Clock, workflows.SearchAttributes()...)
	w.breakers = &breaker.Breakers{State: st.State, Changed: w.recorder.Breaker}
	now := s.Clock().UTC()
	w.offer.Offer = spec.Offer{
		Worker: w.slot.name, Identity: w.identity, Host: s.Host, PID: s.PID, Version: s.Version,
		StartedAt: now,
	}
	if w.health == nil {
		w.health = newHealth(s.Version, s.Commit, s.Clock)
	}
	w.health.follow(w)
	w.use(p)
	w.health.fileRead(nil)
	return w, nil
}

// Mask replaces the secrets of all worker files loaded so far.
func (w *Worker) Mask(text string) string { return w.secrets.Load().Mask(text) }

// Run serves until ctx ends, then drains: it withdraws its offer, takes no new work,
// lets attempts continue for the drain time and hands over the others. It returns nil
// after a complete drain. If Temporal refuses its polls permanently, like those of a
// deleted namespace, it also drains, and returns an [ErrServing]: a supervisor may
// restart it.
func (w *Worker) Run(ctx context.Context) error {
	defer w.store.Close()   //nolint:errcheck // everything is committed
	defer w.gateway.Close() //nolint:errcheck // no attempt is under way
	ctx, end := context.WithCancel(ctx)
	defer end()
	// Called early, so that a namespace without the attributes has them when the
	// first session starts.
	w.attributes.Ready(ctx)
	// Before the offer is published: otherwise sessions could wait for a worker that fails to start.
	polled := w.missingQueues(w.plan.Load())
	switch err := w.publish(ctx); {
	case diskspace.IsFull(err): // the worker may have to free space
		w.Logger.Warn("the worker's offer is not published yet; new sessions cannot use it", "error", err)
	case err != nil:
		return fmt.Errorf("%w: publish what it offers: %w", ErrServing, err)
	}
	w.reclaim(ctx)
	pending := w.restartAll(ctx) // before it polls: a run that is ahead of a restored backup must change nothing
	if err := w.start(polled); err != nil {
		w.queues.retiring.Wait()
		return errors.Join(fmt.Errorf("%w: start: %w", ErrServing, err), w.withdraw(), w.slot.release())
	}
	w.follow(w.plan.Load(), polled)
	var beside sync.WaitGroup
	beside.Go(func() { w.listOrphans(ctx) })
	beside.Go(func() {
		if err := w.store.MirrorAll(ctx); err != nil {
			w.Logger.Warn("the mirror lacks checkpoints; `maestro checkpoints verify --all` says which", "error", err)
		}
	})
	if w.Telemetry.Measures() {
		beside.Go(func() { w.updateGauges(ctx) })
	}
	working, endWork := context.WithCancel(context.WithoutCancel(ctx))
	beside.Go(func() { every(working, trimEvery, func(ctx context.Context) { w.plan.Load().caches.Trim(ctx) }) })
	beside.Go(func() {
		collect := func(ctx context.Context) { w.plan.Load().collectLayers(ctx) }
		collect(working)
		every(working, collectEvery, collect)
	})
	beside.Go(func() { w.backUp(ctx) })
	if pending {
		beside.Go(func() { w.restartRest(ctx) })
	}
	defer beside.Wait()
	defer endWork() // agents still work while the worker drains
	w.Logger.Info("worker serves", "store", w.store.ID(), "dir", w.store.Dir(), "identity", w.identity)
	w.health.beat()
	w.health.enter(Serving)
	beside.Go(func() { every(ctx, spec.OfferRenewal, w.renewOffer) })
	refused := w.mainLoop(ctx)
	end()
	w.health.enter(Draining)
	return errors.Join(refused, w.stop(), w.slot.release())
}

// stop withdraws the worker's offer and drains it. A store that does not answer delays the first
// only: agents are stopped in time.
func (w *Worker) stop() error {
	withdrawn := make(chan error, 1)
	go func() { withdrawn <- w.withdraw() }()
	drained := w.drain()
	if err := <-withdrawn; err != nil {
		return errors.Join(drained, fmt.Errorf("%w: withdraw the offer: %w", ErrServing, err))
	}
	return drained
}

// every calls do at each interval until ctx ends.
func every(ctx context.Context, interval time.Duration, do func(context.Context)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			do(ctx)
		}
	}
}

// mainLoop runs until ctx ends or Temporal refuses polls.
func (w *Worker) mainLoop(ctx context.Context) error {
	ticker := time.NewTicker(pulse)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.refused:
			w.Logger.Error("worker ends: Temporal refuses its polls permanently", "error", err)
			return fmt.Errorf("%w: %w", ErrServing, err)
		case <-ticker.C:
		case <-w.Reloads:
			w.reload(ctx)
		}
		w.health.beat()
	}
}
