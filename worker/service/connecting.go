package service

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/maestro-hive/maestro/internal/platform/retryafter"
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

// connect dials until Temporal answers, and tells health of it meanwhile. It returns nil and no error if ctx ends
// first. Wrong options and refused credentials are errors at once; so is an unreachable Temporal after a timeout above 0.
func connect(ctx context.Context, timeout time.Duration, h *health, logger *slog.Logger,
	dial func() (*temporalutil.Connection, error),
) (*temporalutil.Connection, error) {
	began, reminded := h.clock(), time.Time{}
	for wait := connectWait; ; wait = min(2*wait, connectWaitMax) {
		conn, err := dial()
		var unreachable *temporalutil.UnreachableError
		switch {
		case err == nil:
			if !reminded.IsZero() {
				logger.Info("connected to Temporal", "address", conn.Address, "waited", h.clock().Sub(began).Round(time.Second))
			}
			return conn, nil
		case ctx.Err() != nil:
			return nil, nil
		case !errors.As(err, &unreachable):
			return nil, err
		case timeout > 0 && h.clock().Sub(began)+wait > timeout:
			return nil, err
		}
		h.missed(err)
		if h.clock().Sub(reminded) > connectReminder {
			reminded = h.clock()
			logger.Warn("Temporal cannot be reached; retrying", "address", unreachable.Address, "error", unreachable.Err)
		}
		if !retryafter.Wait(ctx, wait) {
			return nil, nil
		}
	}
}
