package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// throughGateway has the desk's agent work through a gateway, with a breaker.
func throughGateway(t *testing.T, run func(calls session.CallBreaker) error) (*desk, *breakers) {
	d := newDesk(t)
	b := d.withBreaker()
	d.agents.gateway = []string{"p"}
	d.agents.run = func(_ context.Context, job session.Job) (session.Outcome, error) {
		return session.Outcome{}, run(job.Breaker)
	}
	return d, b
}

// TestEachCallOfAGatewayCounts: the fifth failure in a row opens the breaker, and that of the attempt is none more.
func TestEachCallOfAGatewayCounts(t *testing.T) {
	t.Parallel()
	down := failures.Failf(failures.APIError, "down")
	d, b := throughGateway(t, func(calls session.CallBreaker) error {
		for range 6 { // failures that are not in a row
			calls.Report(down)
			calls.Report(failures.Failf(failures.Auth, "no key"))
			calls.Report(nil)
			require.Zero(t, calls.RetryAfter())
		}
		for range 4 {
			calls.Report(down)
			require.Zero(t, calls.RetryAfter())
		}
		return down
	})
	_, err := d.round()
	requireType(t, err, session.RecoverableError)
	require.Equal(t, 4, b.now().Failures)
	d.agents.run = func(_ context.Context, job session.Job) (session.Outcome, error) {
		job.Breaker.Report(down)
		require.Positive(t, job.Breaker.RetryAfter())
		return session.Outcome{}, down
	}
	_, err = d.round()
	requireType(t, err, session.RecoverableError)
	require.Equal(t, session.BreakerIsOpen, b.now().State)
	require.Equal(t, 1, b.now().Trips)
}

// TestAProgramsOwnFailureSaysNothingOfItsProvider.
func TestAProgramsOwnFailureSaysNothingOfItsProvider(t *testing.T) {
	t.Parallel()
	for _, category := range []failures.Category{failures.Timeout, failures.Unknown, failures.APIError} {
		d, b := throughGateway(t, func(session.CallBreaker) error { return failures.Failf(category, "stuck") })
		b.set(func(s *session.BreakerStatus) { s.Failures = 3 })
		for range 3 {
			_, err := d.round()
			require.Error(t, err)
		}
		require.Equal(t, 3, b.now().Failures)
	}
}

// TestAnOpenBreakerHoldsCalls of an attempt that was at work before, but not those of a probe, whose first
// answer closes the breaker.
func TestAnOpenBreakerHoldsCalls(t *testing.T) {
	t.Parallel()
	var d *desk
	var b *breakers
	d, b = throughGateway(t, func(calls session.CallBreaker) error {
		require.Zero(t, calls.RetryAfter())
		for _, left := range []time.Duration{time.Hour, -time.Second} { // half-open, it is another's to probe
			b.open(left)
			require.Greater(t, calls.RetryAfter(), max(0, left-time.Minute))
		}
		return nil
	})
	_, err := d.round()
	requireType(t, err, session.RecoverableError) // it has done nothing
	require.Equal(t, session.BreakerIsOpen, b.now().State)

	d, b = throughGateway(t, func(calls session.CallBreaker) error {
		require.Zero(t, calls.RetryAfter())
		calls.Report(nil)
		require.Equal(t, session.BreakerClosed, b.now().State)
		require.Zero(t, calls.RetryAfter())
		return nil
	})
	b.open(-time.Second)
	_, err = d.round()
	requireType(t, err, session.RecoverableError) // it has done nothing
	require.Equal(t, int64(2), b.now().Generation)
}
