package service

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
)

// The waits of a starting worker for Temporal.
const (
	// connectWait doubles up to connectWaitMax between two tries.
	connectWait    = time.Second
	connectWaitMax = 15 * time.Second
	// connectReminder is the interval of log lines while Temporal is unreachable.
	connectReminder = 10 * time.Minute
)

// connecting is a worker that waits for Temporal. It answers health checks until the worker
// exists.
type connecting struct {
	// timeout bounds the wait; 0: it has no bound.
	timeout         time.Duration
	logger          *slog.Logger
	version, commit string
	since           time.Time
	clock           func() time.Time
	worker          atomic.Pointer[Worker]

	mu sync.Mutex
	// lastError is why Temporal could not be reached at the last try.
	lastError error
}

// dial tries to connect until Temporal answers. It returns nil and no error if ctx ends
// first. Wrong options and refused credentials are errors at once.
func (c *connecting) dial(ctx context.Context, dial func() (*temporalutil.Connection, error)) (*temporalutil.Connection, error) {
	began, reminded := c.clock(), time.Time{}
	for wait := connectWait; ; wait = min(2*wait, connectWaitMax) {
		conn, err := dial()
		var unreachable *temporalutil.UnreachableError
		switch {
		case err == nil:
			if !reminded.IsZero() {
				c.logger.Info("connected to Temporal", "address", conn.Address, "waited", c.clock().Sub(began).Round(time.Second))
			}
			return conn, nil
		case ctx.Err() != nil:
			return nil, nil
		case !errors.As(err, &unreachable):
			return nil, err
		case c.timeout > 0 && c.clock().Sub(began)+wait > c.timeout:
			return nil, err
		}
		c.mu.Lock()
		c.lastError = err
		c.mu.Unlock()
		if c.clock().Sub(reminded) > connectReminder {
			reminded = c.clock()
			c.logger.Warn("Temporal cannot be reached; retrying", "address", unreachable.Address, "error", unreachable.Err)
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(wait):
		}
	}
}

func (c *connecting) health() Health {
	if w := c.worker.Load(); w != nil {
		return w.health.report()
	}
	return Health{Status: "ok", Version: c.version, Commit: c.commit, Since: c.since}
}

func (c *connecting) readiness(ctx context.Context) Readiness {
	if w := c.worker.Load(); w != nil {
		return w.health.readiness(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	failed := FailedCheck{Check: "polling", Trouble: "the worker does not poll yet", Remedy: "wait; the log shows the reason"}
	if c.lastError != nil {
		failed = FailedCheck{Check: "temporal", Trouble: c.lastError.Error(), Remedy: "start Temporal, or give its address; the worker connects when Temporal answers"}
	}
	return Readiness{Status: string(Starting), Failed: []FailedCheck{failed}}
}
