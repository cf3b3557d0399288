package breaker_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

var (
	epoch    = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	settings = spec.Breaker{
		Threshold: 3, Cooldown: textfmt.Duration(time.Minute), MaxCooldown: textfmt.Duration(3 * time.Minute), Probes: 1,
	}
)

// story applies events one after another; a time.Duration lets time pass.
type story struct {
	state   session.BreakerStatus
	now     time.Time
	effects []breaker.Effect
}

func tell(set spec.Breaker, steps ...any) story {
	s := story{now: epoch, state: session.NewBreaker("coder")}
	for _, step := range steps {
		if d, ok := step.(time.Duration); ok {
			s.now = s.now.Add(d)
			continue
		}
		var effect breaker.Effect
		s.state, effect = breaker.Apply(s.state, with(set, step.(breaker.Event)), s.now, 0)
		s.effects = append(s.effects, effect)
	}
	return s
}

// with gives an event of an agent the settings of its worker.
func with(set spec.Breaker, e breaker.Event) breaker.Event {
	switch e := e.(type) {
	case session.BreakerReport:
		e.Breaker = set
		return e
	case breaker.AcquireRequest:
		e.Breaker = set
		return e
	}
	return e
}

func failed(generation int64, holder ...string) session.BreakerReport {
	return session.BreakerReport{Outcome: failures.CountsAsFailure, BreakerPermit: session.BreakerPermit{
		Generation: generation,
		Holder:     strings.Join(holder, ""),
	}, Category: failures.APIError, Message: "503"}
}

func worked(generation int64, holder ...string) session.BreakerReport {
	return session.BreakerReport{Outcome: failures.CountsAsSuccess, BreakerPermit: session.BreakerPermit{
		Generation: generation,
		Holder:     strings.Join(holder, ""),
	}}
}

func neutral(generation int64, holder ...string) session.BreakerReport {
	return session.BreakerReport{Outcome: failures.Neutral, BreakerPermit: session.BreakerPermit{
		Generation: generation,
		Holder:     strings.Join(holder, ""),
	}}
}

func acquire(holder string) breaker.AcquireRequest { return breaker.AcquireRequest{Holder: holder} }

func TestMachine(t *testing.T) {
	t.Parallel()
	opened := []any{failed(0), failed(0), failed(0)}
	probing := append(slices.Clone(opened), time.Minute, acquire("a"))
	after := func(before []any, steps ...any) []any { return append(slices.Clone(before), steps...) }
	until := func(d time.Duration) *time.Time { at := epoch.Add(d); return &at }
	for _, c := range []struct {
		name     string
		steps    []any
		last     breaker.Effect
		state    session.BreakerState
		failures int
		trips    int
		gen      int64
		until    *time.Time
		probes   int
	}{
		{"below the threshold", []any{failed(0), failed(0)}, breaker.Applied, session.BreakerClosed, 2, 0, 0, nil, 0},
		{"at the threshold", opened, breaker.Applied, session.BreakerIsOpen, 3, 1, 1, until(time.Minute), 0},
		{
			"a success between",
			[]any{failed(0), failed(0), worked(0), failed(0), failed(0)},
			breaker.Applied, session.BreakerClosed, 2,
			0, 0, nil, 0,
		},
		{"neutral says nothing", []any{failed(0), failed(0), neutral(0)}, breaker.Ignored, session.BreakerClosed, 2, 0, 0, nil, 0},
		{"a success with nothing to make good", []any{worked(0)}, breaker.Ignored, session.BreakerClosed, 0, 0, 0, nil, 0},
		{
			"the rest of twenty at once", after(opened, failed(0), failed(0)), breaker.Ignored, session.BreakerIsOpen, 3, 1, 1,
			until(time.Minute), 0,
		},
		{"a late success", after(opened, worked(0)), breaker.Ignored, session.BreakerIsOpen, 3, 1, 1, until(time.Minute), 0},
		{
			"no probe while it cools down", after(opened, 59*time.Second, acquire("a")), breaker.Refused, session.BreakerIsOpen, 3, 1, 1,
			until(time.Minute), 0,
		},
		{
			"half-open by the clock alone", after(opened, time.Minute, failed(0)), breaker.Ignored, session.BreakerHalfOpen, 3, 1, 1,
			until(time.Minute), 0,
		},
		{"a probe", probing, breaker.Leased, session.BreakerHalfOpen, 3, 1, 1, until(time.Minute), 1},
		{"one probe only", after(probing, acquire("b")), breaker.Refused, session.BreakerHalfOpen, 3, 1, 1, until(time.Minute), 1},
		{"the same probe again", after(probing, acquire("a")), breaker.Leased, session.BreakerHalfOpen, 3, 1, 1, until(time.Minute), 1},
		{"a probe works", after(probing, worked(1, "a")), breaker.Applied, session.BreakerClosed, 0, 0, 2, nil, 0},
		{"a probe fails", after(probing, failed(1, "a")), breaker.Applied, session.BreakerIsOpen, 4, 2, 2, until(3 * time.Minute), 0},
		{
			"a probe fails again", after(probing, failed(1, "a"), 2*time.Minute, acquire("b"), failed(2, "b")), breaker.Applied,
			session.BreakerIsOpen, 5, 3, 3, until(6 * time.Minute), 0,
		},
		{
			"a probe gives up its lease", after(probing, neutral(1, "a"), acquire("b")), breaker.Leased, session.BreakerHalfOpen, 3, 1, 1,
			until(time.Minute), 1,
		},
		{
			"somebody else's success", after(probing, worked(1, "b")), breaker.Ignored, session.BreakerHalfOpen, 3, 1, 1,
			until(time.Minute), 1,
		},
		{"nobody's success", after(probing, worked(1)), breaker.Ignored, session.BreakerHalfOpen, 3, 1, 1, until(time.Minute), 1},
		{
			"a renewed lease", after(probing, 50*time.Second, breaker.RenewRequest{Holder: "a"}, 50*time.Second, acquire("b")),
			breaker.Refused, session.BreakerHalfOpen, 3, 1, 1, until(time.Minute), 1,
		},
		{
			"a dead prober", after(probing, time.Minute, acquire("b")), breaker.Leased, session.BreakerHalfOpen, 3, 1, 1,
			until(time.Minute), 1,
		},
		{
			"a prober back from the dead", after(probing, time.Minute, acquire("b"), worked(1, "a")), breaker.Ignored,
			session.BreakerHalfOpen, 3, 1, 1, until(time.Minute), 1,
		},
		{
			"a lease that is gone cannot be renewed", after(probing, time.Minute, breaker.RenewRequest{Holder: "a"}), breaker.Refused,
			session.BreakerHalfOpen, 3, 1, 1, until(time.Minute), 1,
		},
		{"closed needs no lease", []any{acquire("a")}, breaker.Passed, session.BreakerClosed, 0, 0, 0, nil, 0},
		{
			"tripped until reset",
			[]any{breaker.TripRequest{By: "ann"}, 100 * time.Hour, acquire("a")},
			breaker.Refused,
			session.BreakerIsOpen, 0, 1, 1, nil, 0,
		},
		{
			"tripped for an hour",
			[]any{breaker.TripRequest{By: "ann", For: textfmt.Duration(time.Hour)}, time.Hour, acquire("a")},
			breaker.Leased, session.BreakerHalfOpen, 0, 1, 1, until(time.Hour), 1,
		},
		{
			"a trip ends a probe", after(probing, breaker.TripRequest{By: "ann"}, worked(1, "a")), breaker.Ignored, session.BreakerIsOpen,
			3, 2, 2, nil, 0,
		},
		{"reset", after(opened, breaker.ResetRequest{By: "ann"}), breaker.Applied, session.BreakerClosed, 0, 0, 2, nil, 0},
		{
			"a reset fences what came before", after(opened, breaker.ResetRequest{By: "ann"}, failed(1)), breaker.Ignored,
			session.BreakerClosed, 0, 0, 2, nil, 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := tell(settings, c.steps...)
			require.Equal(t, c.last, s.effects[len(s.effects)-1])
			require.Equal(t, c.state, s.state.At(s.now).State)
			require.Equal(t, c.failures, s.state.Failures)
			require.Equal(t, c.trips, s.state.Trips)
			require.Equal(t, c.gen, s.state.Generation)
			require.Len(t, s.state.Probes, c.probes)
			require.Equal(t, c.until, s.state.OpenUntil)
		})
	}
}

func TestForcedOpeningSaysWhoAndWhy(t *testing.T) {
	t.Parallel()
	s := tell(settings, breaker.TripRequest{By: "ann", Why: strings.Repeat("long ", 100), For: textfmt.Duration(time.Hour)})
	require.Equal(t, "ann", s.state.Forced.By)
	require.LessOrEqual(t, len(s.state.Forced.Why), 200)
	require.Equal(t, epoch.Add(time.Hour), *s.state.Forced.Until)
	s = tell(settings, breaker.TripRequest{By: "ann", Why: "maintenance"}, breaker.ResetRequest{By: "bob", Why: "done"})
	require.Nil(t, s.state.Forced)
	require.Equal(t, "bob", s.state.ChangedBy)
	require.Equal(t, "done", s.state.Why)
}

// TestAStatedWaitIsTheCooldown if it is longer.
func TestAStatedWaitIsTheCooldown(t *testing.T) {
	t.Parallel()
	set := spec.Breaker{
		Threshold: 1, Cooldown: textfmt.Duration(30 * time.Second), MaxCooldown: textfmt.Duration(15 * time.Minute),
		Probes: 1,
	}
	for stated, want := range map[time.Duration]time.Duration{
		0: 30 * time.Second, time.Second: 30 * time.Second, 5 * time.Hour: 5 * time.Hour,
	} {
		failure := failed(0)
		failure.RetryAfter = textfmt.Duration(stated)
		s := tell(set, failure)
		require.Equal(t, epoch.Add(want), *s.state.OpenUntil)
		// A probe that fails opens it anew, for what it states.
		s = tell(set, failure, want, acquire("a"),
			func() session.BreakerReport { f := failed(1, "a"); f.RetryAfter = textfmt.Duration(stated); return f }())
		require.Equal(t, epoch.Add(want+max(stated, time.Minute)), *s.state.OpenUntil)
	}
}

func TestCooldownIsSpreadBetweenItsBounds(t *testing.T) {
	t.Parallel()
	for _, random := range []float64{0, 0.5, 0.999} {
		s := session.NewBreaker("coder")
		now := epoch
		for trip := range 5 {
			generation := s.Generation
			if trip == 0 {
				for range settings.Threshold {
					s, _ = breaker.Apply(s, with(settings, failed(generation)), now, random)
				}
			} else {
				now = *s.OpenUntil
				s, _ = breaker.Apply(s, with(settings, acquire("p")), now, random)
				s, _ = breaker.Apply(s, with(settings, failed(generation, "p")), now, random)
			}
			least := min(time.Minute<<trip, 3*time.Minute)
			require.GreaterOrEqual(t, s.OpenUntil.Sub(now), least)
			require.LessOrEqual(t, s.OpenUntil.Sub(now), min(least+least/10, 3*time.Minute))
		}
	}
}

// TestInvariantsOverAllSequences tries every sequence of events up to a length.
func TestInvariantsOverAllSequences(t *testing.T) {
	t.Parallel()
	set := spec.Breaker{
		Threshold: 2, Cooldown: textfmt.Duration(time.Minute), MaxCooldown: textfmt.Duration(2 * time.Minute),
		Probes: 1,
	}
	alphabet := func(g int64) []any {
		return []any{
			failed(g), worked(g), failed(g - 1), worked(g - 1), failed(g, "a"), worked(g, "a"), neutral(g, "a"),
			acquire("a"), acquire("b"),
			breaker.RenewRequest{Holder: "b"},
			worked(g, "b"),
			breaker.TripRequest{By: "x"},
			breaker.ResetRequest{By: "x"},
			40 * time.Second,
		}
	}
	var explore func(s session.BreakerStatus, now time.Time, left int)
	explore = func(s session.BreakerStatus, now time.Time, left int) {
		if left == 0 {
			return
		}
		for _, step := range alphabet(s.Generation) {
			if d, ok := step.(time.Duration); ok {
				explore(s, now.Add(d), left-1)
				continue
			}
			before := frozen(s)
			next, effect := breaker.Apply(s, with(set, step.(breaker.Event)), now, 0)
			if before != frozen(s) {
				t.Fatalf("the argument was changed by %+v", step)
			}
			hold(t, set, s, next, step.(breaker.Event), effect, now)
			explore(next, now, left-1)
		}
	}
	explore(session.NewBreaker("coder"), epoch, 5)
	halfOpen := tell(set, failed(0), failed(0), 61*time.Second)
	explore(halfOpen.state, halfOpen.now, 4)
}

// frozen is a value that differs when any part of a state does.
func frozen(s session.BreakerStatus) [8]any {
	leases := ""
	for _, l := range s.Probes {
		leases += l.Holder + l.Until.String()
	}
	until := time.Time{}
	if s.OpenUntil != nil {
		until = *s.OpenUntil
	}
	return [8]any{s.State, s.Failures, s.Generation, s.Trips, until, leases, s.Forced != nil, s.Revision}
}

// hold checks what is true of every application of an event.
func hold(t *testing.T, set spec.Breaker, before, after session.BreakerStatus, e breaker.Event, effect breaker.Effect,
	now time.Time,
) {
	t.Helper()
	bad := func(what string) {
		t.Fatalf("%s: %+v with %T%+v (%s) becomes %+v", what, before, e, e, effect, after)
	}
	wasOpen, isOpen := before.State == session.BreakerIsOpen, after.State == session.BreakerIsOpen
	report, isReport := e.(session.BreakerReport)
	_, byTrip := e.(breaker.TripRequest)
	_, byReset := e.(breaker.ResetRequest)
	switch {
	case len(after.Probes) > set.Probes:
		bad("more probes than allowed")
	case len(after.Probes) > 0 && effect == breaker.Leased && after.At(now).State != session.BreakerHalfOpen:
		bad("a probe outside half-open")
	case !isOpen && (len(after.Probes) > 0 || after.OpenUntil != nil || after.Forced != nil || after.Trips != 0 ||
		after.Failures >= set.Threshold):
		bad("closed, with something of an open one")
	case isOpen && after.OpenUntil == nil && after.Forced == nil:
		bad("open for ever, by nobody")
	case after.Generation < before.Generation || after.Generation > before.Generation+1:
		bad("the generation jumped")
	case wasOpen && isOpen && after.Generation-int64(after.Trips) != before.Generation-int64(before.Trips):
		bad("another opening, without a closing between")
	case wasOpen != isOpen && after.Generation == before.Generation:
		bad("a transition without a generation")
	case after.Revision == before.Revision && frozen(before) != frozen(after):
		bad("changed without a revision")
	case !wasOpen && isOpen && !byTrip && (!isReport || report.Outcome != failures.CountsAsFailure ||
		before.Failures != set.Threshold-1):
		bad("opened by something else than the last failure of the threshold")
	case wasOpen && !isOpen && !byReset && (!isReport || report.Outcome != failures.CountsAsSuccess || report.Holder == ""):
		bad("closed by something else than a probe")
	case isReport && report.Generation < before.Generation && frozen(before) != frozen(after):
		bad("an old outcome counted")
	case isReport && wasOpen && before.At(now).State != session.BreakerHalfOpen && effect != breaker.Ignored:
		bad("an outcome counted while cooling down")
	}
}
