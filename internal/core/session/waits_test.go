package session_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// TestOutageWaitsLongerAndLonger with half of each wait spread, and begins anew for another
// agent.
func TestOutageWaitsLongerAndLonger(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	f := *failures.Failf(failures.APIError, "down")
	var o *session.Outage
	for n, most := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		least := o.After(f, "a", now, 0, 0)
		next := o.After(f, "a", now, 0, 1)
		require.Equal(t, most*time.Second, next.Until.Sub(now))
		require.Equal(t, most*time.Second/2, least.Until.Sub(now))
		require.Equal(t, n+1, next.Tries)
		o = &next
	}
	later := o.After(f, "a", now.Add(time.Hour), 0, 0)
	require.Equal(t, now, later.Since)
	other := o.After(f, "b", now.Add(time.Hour), 0, 0)
	require.Equal(t, now.Add(time.Hour), other.Since)
	require.Equal(t, 1, other.Tries)
}

// TestStatedWaitsWinAndExtendPatience, unless one short wait is stated after another.
func TestStatedWaitsWinAndExtendPatience(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	const patience = textfmt.Duration(30 * time.Minute)
	stated := func(d time.Duration) failures.Failure {
		f := failures.Failf(failures.RateLimited, "slow down")
		f.RetryAfter = textfmt.Duration(d)
		return *f
	}
	var none *session.Outage
	o := none.After(stated(5*time.Hour), "a", now, patience, 0)
	require.Equal(t, 5*time.Hour, o.Until.Sub(now))
	require.Equal(t, 5*time.Hour+30*time.Minute, o.PatienceUntil(patience).Sub(now))

	o = none.After(stated(time.Minute), "a", now, patience, 0)
	at := now
	for range 40 {
		at = o.Until
		o = o.After(stated(time.Minute), "a", at, patience, 0)
	}
	require.Equal(t, 31*time.Minute, o.PatienceUntil(patience).Sub(now), "short waits extend it once")
	o = o.After(stated(48*time.Hour), "a", at, patience, 0)
	require.Equal(t, at.Add(48*time.Hour).Add(patience.Std()), o.PatienceUntil(patience), "a long one does")

	o = none.After(stated(session.MaxRetryAfter.Std()), "a", now, patience, 0)
	require.Equal(t, session.MaxRetryAfter.Std(), o.Until.Sub(now))
	for range 5 {
		o = o.After(stated(session.MaxRetryAfter.Std()), "a", o.Until, patience, 0)
	}
	require.LessOrEqual(t, o.PatienceFrom.Sub(now), session.MaxRetryAfter.Std(), "people hear of it some time")
}

// A wait for others is no outage: it ends when its look is due, and an outage after it begins anew.
func TestAWaitForOthersIsNoOutage(t *testing.T) {
	t.Parallel()
	var none *session.Outage
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	f := *failures.Failf(failures.Pending, "waits for a review")
	f.RetryAfter = textfmt.Duration(10 * time.Minute)
	o := none.After(f, "github", now, 0, 0.5)
	require.True(t, o.Pending())
	require.Equal(t, now.Add(10*time.Minute), o.Until)
	require.Equal(t, "waits for a review; the next look is at 2026-11-28 12:10:00 UTC", o.String())

	later := now.Add(72 * time.Hour)
	o = o.After(*failures.Failf(failures.APIError, "502"), "github", later, textfmt.Duration(time.Minute), 0)
	require.Equal(t, later, o.Since, "patience is not over because a review took three days")
	require.False(t, o.Pending())
}

// TestTroubleOfProvidersAndHostsIsWaitedOut and no other.
func TestTroubleOfProvidersAndHostsIsWaitedOut(t *testing.T) {
	t.Parallel()
	for _, c := range failures.Categories() {
		f := failures.Failf(c, "m")
		require.NotEmpty(t, failures.RuleFor(c).Owner, c)
		waits := c == failures.APIError || c == failures.RateLimited || c == failures.ResourceError || c == failures.Pending
		require.Equal(t, waits, f.MayPass(), c)
		counts := func() int {
			return session.CountedAttempts(session.RoundLog{Attempts: []session.AttemptReport{{Failure: *f}}}.Failures())
		}
		person, agent := failures.RuleFor(c).Owner == failures.OwnerPerson, failures.RuleFor(c).Owner == failures.OwnerAgent
		require.Equal(t, !person, counts() == 1, "%s, after patience", c)
		f.Final = true
		require.False(t, f.MayPass(), c)
		require.Equal(t, agent, counts() == 1, "final %s", c)
	}
}

// TestPausesOfARound are counted in the attempt that they interrupt, once, however often it waits.
func TestPausesOfARound(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2026, 11, 26, 10, minute, 0, 0, time.UTC) }
	var l session.RoundLog
	l.Continue(at(0))
	l.Pause(at(1), failures.Failure{Category: failures.TokenBudget})
	l.Pause(at(2), failures.Failure{Category: failures.APIError})
	require.Equal(t, []session.Pause{{From: at(1), To: at(5), For: failures.TokenBudget}}, l.PausesIn(at(0), at(5)),
		"one that lasts")
	before := l
	l.Continue(at(3))
	l.Continue(at(4))
	require.Zero(t, before.Pauses[0].To, "a reader's copy stays")
	require.Equal(t, []session.Pause{{From: at(2), To: at(3), For: failures.TokenBudget}}, l.PausesIn(at(2), at(9)))
	require.Empty(t, l.PausesIn(at(3), at(9)))
	for i := range 200 {
		l.Pause(at(10).Add(time.Duration(i)*time.Second), failures.Failure{Category: failures.APIError})
		l.Continue(at(10).Add(time.Duration(i) * time.Second))
	}
	require.Len(t, l.Pauses, 50, "the oldest are joined")
	require.Equal(t, at(1), l.Pauses[0].From)
}

// TestAWaitForOthersGoesOnOverLooks at what they have done, until they have to do something else.
func TestAWaitForOthersGoesOnOverLooks(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return time.Date(2026, 11, 26, 10, 0, second, 0, time.UTC) }
	var l session.RoundLog
	for i, text := range []string{"waits for CI", "waits for CI", "waits for a review"} {
		l.Pause(at(20*i), *failures.Failf(failures.Pending, "%s", text))
		l.Continue(at(20*i + 15))
	}
	require.Equal(t, []session.Pause{
		{From: at(0), To: at(35), For: failures.Pending, Text: "waits for CI"},
		{From: at(40), To: at(55), For: failures.Pending, Text: "waits for a review"},
	}, l.Pauses)
	l.Pause(at(200), *failures.Failf(failures.Pending, "waits for a review"))
	require.Len(t, l.Pauses, 3, "the attempt was at work for long")
}

// TestWaitsAreNoPartOfATime has a timer's function called after as much time without waits, however these overlap.
func TestWaitsAreNoPartOfATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := session.NewPausedTime(time.Now)
		var over atomic.Int64
		timer := w.AfterFunc(10*time.Minute, func() { over.Store(int64(time.Since(began))) })
		defer timer.Stop()
		time.Sleep(5 * time.Minute)
		first := w.Begin()
		time.Sleep(20 * time.Minute) // past the time
		second := w.Begin()
		first()
		time.Sleep(10 * time.Minute)
		second()
		require.Equal(t, 30*time.Minute, w.Total())
		time.Sleep(5*time.Minute - time.Second)
		require.Zero(t, over.Load())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 40*time.Minute, time.Duration(over.Load()))

		timer.Reset(time.Minute)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, 41*time.Minute+time.Second, time.Duration(over.Load()), "an earlier wait counts once")
	})
}
