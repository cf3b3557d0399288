package breaker_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// processes are the breakers of one installation as two processes see them, at a time that the test sets.
func processes(t *testing.T) (a, b *breaker.Breakers, pass func(time.Duration)) {
	t.Helper()
	dir, now := t.TempDir(), epoch
	var mu sync.Mutex
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	open := func() *breaker.Breakers {
		db, err := state.OpenSQLite(t.Context(), dir, state.Options{Now: clock})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		return &breaker.Breakers{State: db}
	}
	return open(), open(), func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}
}

func five() spec.Breaker {
	return spec.Breaker{Cooldown: textfmt.Duration(time.Hour), MaxCooldown: textfmt.Duration(2 * time.Hour)}.For("coder")
}

func failureOf(b spec.Breaker, id string, generation int64) session.BreakerReport {
	return session.BreakerReport{
		ID: id, Breaker: b, Outcome: failures.CountsAsFailure, BreakerPermit: session.BreakerPermit{Generation: generation},
		Category: failures.RateLimited, Message: "slow down",
	}
}

// TestOpensOnExactlyTheFifthFailure of two processes, each of which sends each report twice.
func TestOpensOnExactlyTheFifthFailure(t *testing.T) {
	t.Parallel()
	a, b, _ := processes(t)
	for n := 1; n <= 5; n++ {
		for _, from := range []*breaker.Breakers{a, b} {
			_, err := from.Report(t.Context(), failureOf(five(), fmt.Sprint("r", n), 0))
			require.NoError(t, err)
		}
		now, err := b.Read(t.Context(), "coder")
		require.NoError(t, err)
		require.Equal(t, n, now.Failures)
		require.Equal(t, n == 5, now.State == session.BreakerIsOpen, "after failure %d", n)
	}
	now, err := a.Read(t.Context(), "coder")
	require.NoError(t, err)
	require.Equal(t, int64(1), now.Generation)
	require.Equal(t, failures.RateLimited, now.LastFailure.Category)
	require.Equal(t, five(), now.Settings)
	answer, err := a.Acquire(t.Context(), five(), "p")
	require.NoError(t, err)
	require.Equal(t, breaker.Refused, answer.Effect)
}

// effectsOf calls something twenty times at once in two processes, and counts the effects.
func effectsOf(t *testing.T, a, b *breaker.Breakers,
	call func(ctx context.Context, bs *breaker.Breakers, n int) (breaker.Answer, error),
) map[breaker.Effect]int {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	effects := map[breaker.Effect]int{}
	for n := range 20 {
		all.Go(func() {
			answer, err := call(t.Context(), []*breaker.Breakers{a, b}[n%2], n)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			effects[answer.Effect]++
		})
	}
	all.Wait()
	return effects
}

func TestTwentyAtOnce(t *testing.T) {
	t.Parallel()
	a, b, pass := processes(t)
	effects := effectsOf(t, a, b, func(ctx context.Context, bs *breaker.Breakers, n int) (breaker.Answer, error) {
		return bs.Report(ctx, failureOf(five(), fmt.Sprint("r", n), 0))
	})
	require.Equal(t, map[breaker.Effect]int{breaker.Applied: 5, breaker.Ignored: 15}, effects)
	pass(2 * time.Hour)
	effects = effectsOf(t, a, b, func(ctx context.Context, bs *breaker.Breakers, n int) (breaker.Answer, error) {
		return bs.Acquire(ctx, five(), fmt.Sprint("p", n))
	})
	require.Equal(t, map[breaker.Effect]int{breaker.Leased: 1, breaker.Refused: 19}, effects)

	now, err := a.Read(t.Context(), "coder")
	require.NoError(t, err)
	require.Equal(t, session.BreakerHalfOpen, now.At(epoch.Add(2*time.Hour)).State)
	holder := now.Probes[0].Holder
	renewed, err := b.Renew(t.Context(), five(), holder)
	require.NoError(t, err)
	require.Equal(t, breaker.Leased, renewed.Effect)
	probe := failureOf(five(), "probe", 1)
	probe.Outcome, probe.Holder = failures.CountsAsSuccess, holder
	closed, err := b.Report(t.Context(), probe)
	require.NoError(t, err)
	require.Equal(t, session.BreakerClosed, closed.State)
}

func TestTripAndResetByHand(t *testing.T) {
	t.Parallel()
	a, b, _ := processes(t)
	for range 2 { // a repetition changes nothing
		tripped, err := a.Set(t.Context(), "t1", "coder", breaker.TripRequest{
			By: "ann", Why: strings.Repeat("long ", 100), For: textfmt.Duration(time.Hour),
		})
		require.NoError(t, err)
		require.Equal(t, session.BreakerIsOpen, tripped.State)
		require.Equal(t, "ann", tripped.Forced.By)
		require.LessOrEqual(t, len(tripped.Forced.Why), 200)
		require.Equal(t, epoch.Add(time.Hour), *tripped.OpenUntil)
		require.Equal(t, int64(1), tripped.Generation)
	}
	reset, err := b.Set(t.Context(), "t2", "coder", breaker.ResetRequest{By: "bob", Why: "done"})
	require.NoError(t, err)
	require.Equal(t, session.BreakerClosed, reset.State)
	require.Nil(t, reset.Forced)
	require.Equal(t, []string{"bob", "done"}, []string{reset.ChangedBy, reset.Why})
	require.Equal(t, int64(2), reset.Generation)
}
