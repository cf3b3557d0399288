package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/maestro-hive/maestro/internal/platform/httpserver"
	"github.com/maestro-hive/maestro/worker/telemetry"
)

// The paths of the health checks.
const (
	// HealthPath answers 200 unless the process should be restarted.
	HealthPath = "/healthz"
	// ReadyPath answers 200 while the worker takes work, and Temporal delivers it.
	ReadyPath = "/readyz"
)

const (
	// stuckAfter bounds one iteration of the worker's main loop.
	stuckAfter = time.Minute
	// answerWithin bounds an answer: Kubernetes probes have a timeout of a second by default.
	answerWithin = 700 * time.Millisecond
	// lookLimit is the timeout of a check of Temporal or the store.
	lookLimit = 5 * time.Second
)

// Stage is a state of the worker process.
type Stage string

// The stages, in order.
const (
	Starting Stage = "starting"
	Serving  Stage = "serving"
	Draining Stage = "draining"
)

// Health is the answer of HealthPath.
type Health struct {
	// Status is ok, or stuck.
	Status   string    `json:"status"`
	Version  string    `json:"version"`
	Commit   string    `json:"commit"`
	Identity string    `json:"identity"`
	Store    string    `json:"store"`
	Since    time.Time `json:"since"`
	// Trouble is the reason for a restart.
	Trouble string `json:"trouble,omitempty"`
}

// Readiness is the answer of ReadyPath.
type Readiness struct {
	// Status is ready, not ready, starting or draining.
	Status string `json:"status"`
	// Failed lists what keeps the worker from taking work.
	Failed []FailedCheck `json:"failed,omitempty"`
	// File is the loaded worker file.
	File WorkerFile `json:"worker_file"`
}

// FailedCheck is something that keeps a worker from taking work.
type FailedCheck struct {
	// Check is polling, store or temporal.
	Check   string `json:"check"`
	Trouble string `json:"trouble"`
	Remedy  string `json:"remedy"`
}

// health answers the health checks of a worker process, also while it waits for Temporal and has no worker.
type health struct {
	clock func() time.Time
	// probes are the running checks of Temporal and of the store: one at a time of each.
	probes singleflight.Group

	mu    sync.Mutex
	stage Stage
	// unreachable is why Temporal could not be reached at the last try; nil: there was none.
	unreachable error
	// worker is nil until Temporal has answered.
	worker *Worker
	// about has what does not change in the answers.
	about Health
	// pulse is the start of the main loop's last iteration.
	pulse time.Time
	file  WorkerFile
}

func newHealth(version, commit string, clock func() time.Time) *health {
	return &health{clock: clock, stage: Starting, about: Health{
		Status: "ok", Version: version, Commit: commit,
		Since: clock().UTC(),
	}}
}

// follow makes it answer for a worker.
func (h *health) follow(w *Worker) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.worker, h.unreachable, h.file.Path = w, nil, w.File
	h.about.Identity, h.about.Store = w.identity, w.store.ID()
}

// missed notes why Temporal cannot be reached.
func (h *health) missed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unreachable = err
}

func (h *health) enter(s Stage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stage = s
}

func (h *health) beat() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pulse = h.clock()
}

// fileRead notes the result of reading the worker file.
func (h *health) fileRead(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.file.Trouble = ""
	if err == nil {
		h.file.LoadedAt = h.clock().UTC()
	} else {
		h.file.Trouble = err.Error()
	}
	h.worker.recorder.FileLoaded(err == nil)
}

// stuck returns why the process should be restarted; nil: there is no reason.
func (h *health) stuck() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if still := h.clock().Sub(h.pulse); h.stage == Serving && still > stuckAfter {
		return fmt.Errorf("the worker's main loop has not run for %s", still.Round(time.Second))
	}
	return nil
}

// probe starts a check of a dependency, unless one is running. The returned function waits for the result until ctx ends.
func (h *health) probe(name string, look func(context.Context) error) func(ctx context.Context) error {
	done := h.probes.DoChan(name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
		defer cancel()
		return nil, look(ctx)
	})
	return func(ctx context.Context) error {
		select {
		case result := <-done:
			return result.Err
		case <-ctx.Done():
			return errors.New("no answer yet")
		}
	}
}

// ServeHealth serves HealthPath and ReadyPath until it is stopped: on the server
// of the metrics if that has the port, else on all interfaces. Port 0 is a free
// one. It returns the port. If it cannot listen, the error is an [ErrServing].
func (w *Worker) ServeHealth(ctx context.Context, port int, t *telemetry.Telemetry) (served int, stop func(), err error) {
	return w.health.serve(ctx, port, t, w.Logger)
}

func (h *health) serve(ctx context.Context, port int, t *telemetry.Telemetry, logger *slog.Logger) (served int, stop func(),
	err error,
) {
	server, stop := t.Server(), func() {}
	if server == nil || port != server.Port() {
		if server, err = httpserver.ListenForProbes(ctx, net.JoinHostPort("", strconv.Itoa(port))); err != nil {
			return 0, nil, fmt.Errorf("%w: cannot listen on port %d for health checks; choose another --health-port: %w", ErrServing, port,
				err)
		}
		stop = func() {
			ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
			defer cancel()
			_ = server.Close(ctx) // the process ends
		}
	}
	server.Handle("GET "+HealthPath, documentHandler(func(context.Context) (any, bool) {
		out := h.report()
		return out, out.Trouble == ""
	}))
	server.Handle("GET "+ReadyPath, documentHandler(func(ctx context.Context) (any, bool) {
		r := h.readiness(ctx)
		return r, r.Status == ready
	}))
	logger.Info("health is served", "address", server.Address(), "paths", HealthPath+" "+ReadyPath)
	return server.Port(), stop, nil
}

// documentHandler serves a document, with status 200 or 503.
func documentHandler(ask func(context.Context) (document any, ok bool)) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		document, ok := ask(r.Context())
		rw.Header().Set("Content-Type", "application/json")
		rw.Header().Set("Cache-Control", "no-store")
		if !ok {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(rw).Encode(document) // the client may have disconnected
	})
}

// report answers HealthPath.
func (h *health) report() Health {
	h.mu.Lock()
	out := h.about
	h.mu.Unlock()
	if err := h.stuck(); err != nil {
		out.Status, out.Trouble = "stuck", err.Error()
	}
	return out
}

const ready = "ready"

// readiness checks whether the worker can take work. It answers within a second, also
// if Temporal or the store does not.
func (h *health) readiness(ctx context.Context) Readiness {
	h.mu.Lock()
	stage, unreachable, file := h.stage, h.unreachable, h.file
	h.mu.Unlock()
	r := Readiness{Status: string(stage), File: file}
	switch {
	case unreachable != nil:
		r.Failed = []FailedCheck{{
			"temporal", unreachable.Error(),
			"start Temporal, or give its address; the worker connects when Temporal answers",
		}}
	case stage == Starting:
		r.Failed = []FailedCheck{{"polling", "the worker does not poll yet", "wait; the log shows the reason"}}
	case stage == Draining:
		r.Failed = []FailedCheck{{
			"polling", "the worker stops and takes no new work",
			"no action needed; other workers continue the work",
		}}
	default:
		if r.Failed = h.failedChecks(ctx); len(r.Failed) == 0 {
			r.Status = ready
		} else {
			r.Status = "not ready"
		}
	}
	return r
}

// failedChecks lists the reasons why a serving worker takes no work.
func (h *health) failedChecks(ctx context.Context) (failed []FailedCheck) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	temporal, store := h.probe("temporal", h.worker.delivered), h.probe("store", h.worker.publish)
	if err := h.stuck(); err != nil {
		failed = append(failed, FailedCheck{"polling", err.Error(), "restart the worker"})
	}
	if err := store(ctx); err != nil {
		failed = append(failed, FailedCheck{"store", err.Error(), fmt.Sprintf(
			"check that %s is mounted, has free space and is writable by the worker's user; work waits and is not lost",
			h.worker.store.Dir())})
	}
	if err := temporal(ctx); err != nil {
		failed = append(failed, FailedCheck{"temporal", err.Error(), fmt.Sprintf(
			"check that Temporal runs at %s, is reachable from here and is healthy; the worker continues when Temporal delivers work",
			h.worker.Connection.Address)})
	}
	return failed
}
