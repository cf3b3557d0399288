package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// throughGateway has the desk's agent work through a gateway, with a breaker.
func throughGateway(t *testing.T, state breaker.State, run func(calls session.CallBreaker) error) (*desk, *breakers) {
	d, b := newDesk(t), &breakers{state: state}
	d.breakers, d.agents.gateway = b, []string{"p"}
	d.agents.run = func(_ context.Context, job session.Job) (session.Outcome, error) {
		return session.Outcome{}, run(job.Breaker)
	}
	return d, b
}

// TestEachCallOfAGatewayCounts: the fifth failure in a row opens the breaker, and that of the attempt is none more.
func TestEachCallOfAGatewayCounts(t *testing.T) {
	t.Parallel()
	down := failures.Failf(failures.APIError, "down")
	d, b := throughGateway(t, breaker.State{}, func(calls session.CallBreaker) error {
		for range 6 { // failures that are not in a row
			calls.Report(down)
			calls.Report(failures.Failf(failures.Auth, "no key"))
			calls.Report(nil)
			require.Zero(t, calls.Open())
		}
		for range 4 {
			calls.Report(down)
			require.Zero(t, calls.Open())
		}
		return down
	})
	_, err := d.round()
	requireType(t, err, session.RecoverableError)
	require.Equal(t, 4, b.state.Failures)
	d.agents.run = func(_ context.Context, job session.Job) (session.Outcome, error) {
		job.Breaker.Report(down)
		require.Positive(t, job.Breaker.Open())
		return session.Outcome{}, down
	}
	_, err = d.round()
	requireType(t, err, session.RecoverableError)
	require.True(t, b.state.Open)
	require.Equal(t, 1, b.state.Trips)
}

// TestAProgramsOwnFailureSaysNothingOfItsProvider.
func TestAProgramsOwnFailureSaysNothingOfItsProvider(t *testing.T) {
	t.Parallel()
	for _, category := range []failures.Category{failures.Timeout, failures.Unknown, failures.APIError} {
		d, b := throughGateway(t, breaker.State{Failures: 3},
			func(session.CallBreaker) error { return failures.Failf(category, "stuck") })
		for range 3 {
			_, err := d.round()
			require.Error(t, err)
		}
		require.Equal(t, 3, b.state.Failures)
	}
}

// TestAnOpenBreakerHoldsCalls of an attempt that was at work before, but not those of a probe, whose first
// answer closes the breaker.
func TestAnOpenBreakerHoldsCalls(t *testing.T) {
	t.Parallel()
	var d *desk
	var b *breakers
	d, b = throughGateway(t, breaker.State{}, func(calls session.CallBreaker) error {
		require.Zero(t, calls.Open())
		for _, left := range []time.Duration{time.Hour, -time.Second} { // half-open, it is another's to probe
			b.mu.Lock()
			b.state = open(left)
			b.mu.Unlock()
			require.Eventually(t, func() bool { return calls.Open() > max(0, left-time.Minute) }, time.Minute, 50*time.Millisecond)
		}
		return nil
	})
	_, err := d.round()
	requireType(t, err, session.RecoverableError) // it has done nothing
	require.True(t, b.state.Open)

	d, b = throughGateway(t, open(-time.Second), func(calls session.CallBreaker) error {
		require.Zero(t, calls.Open())
		calls.Report(nil)
		require.False(t, b.state.Open)
		require.Zero(t, calls.Open())
		return nil
	})
	_, err = d.round()
	requireType(t, err, session.RecoverableError) // it has done nothing
	require.Equal(t, 1, b.leases)
}
