package breaker_test

import (
	"context"
	"fmt"
	"slices"
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

// reported is one of an attempt in a generation; of a probe, if it has a holder.
func reported(outcome failures.Weight, generation int64, holder []string) session.BreakerReport {
	return session.BreakerReport{Outcome: outcome, BreakerPermit: session.BreakerPermit{
		Generation: generation, Holder: strings.Join(holder, ""),
	}}
}

func failed(generation int64, holder ...string) session.BreakerReport {
	r := reported(failures.CountsAsFailure, generation, holder)
	r.Category, r.Message = failures.APIError, "503"
	return r
}

func worked(generation int64, holder ...string) session.BreakerReport {
	return reported(failures.CountsAsSuccess, generation, holder)
}

func neutral(generation int64, holder ...string) session.BreakerReport {
	return reported(failures.Neutral, generation, holder)
}

func acquire(holder string) breaker.AcquireRequest { return breaker.AcquireRequest{Holder: holder} }

// standing is what a breaker has come to. until is when it may be probed, after the beginning; zero: never, or it is closed.
type standing struct {
	state           session.BreakerState
	failures, trips int
	generation      int64
	until           time.Duration
	probes          int
}

func TestMachine(t *testing.T) {
	t.Parallel()
	opened := []any{failed(0), failed(0), failed(0)}
	probing := append(slices.Clone(opened), time.Minute, acquire("a"))
	after := func(before []any, steps ...any) []any { return append(slices.Clone(before), steps...) }
	closed := func(failures int, generation int64) standing {
		return standing{state: session.BreakerClosed, failures: failures, generation: generation}
	}
	open := standing{session.BreakerIsOpen, 3, 1, 1, time.Minute, 0}
	cooled := standing{session.BreakerHalfOpen, 3, 1, 1, time.Minute, 0}
	probed := standing{session.BreakerHalfOpen, 3, 1, 1, time.Minute, 1}
	trip, tripHour := breaker.TripRequest{By: "ann"}, breaker.TripRequest{By: "ann", For: textfmt.Duration(time.Hour)}
	reset := breaker.ResetRequest{By: "ann"}
	for _, c := range []struct {
		name  string
		steps []any
		last  breaker.Effect
		want  standing
	}{
		{"below the threshold", []any{failed(0), failed(0)}, breaker.Applied, closed(2, 0)},
		{"at the threshold", opened, breaker.Applied, open},
		{"a success between", []any{failed(0), failed(0), worked(0), failed(0), failed(0)}, breaker.Applied, closed(2, 0)},
		{"neutral says nothing", []any{failed(0), failed(0), neutral(0)}, breaker.Ignored, closed(2, 0)},
		{"a success with nothing to make good", []any{worked(0)}, breaker.Ignored, closed(0, 0)},
		{"the rest of twenty at once", after(opened, failed(0), failed(0)), breaker.Ignored, open},
		{"a late success", after(opened, worked(0)), breaker.Ignored, open},
		{"no probe while it cools down", after(opened, 59*time.Second, acquire("a")), breaker.Refused, open},
		{"half-open by the clock alone", after(opened, time.Minute, failed(0)), breaker.Ignored, cooled},
		{"a probe", probing, breaker.Leased, probed},
		{"one probe only", after(probing, acquire("b")), breaker.Refused, probed},
		{"the same probe again", after(probing, acquire("a")), breaker.Leased, probed},
		{"a probe works", after(probing, worked(1, "a")), breaker.Applied, closed(0, 2)},
		{
			"a probe fails", after(probing, failed(1, "a")), breaker.Applied,
			standing{session.BreakerIsOpen, 4, 2, 2, 3 * time.Minute, 0},
		},
		{
			"a probe fails again", after(probing, failed(1, "a"), 2*time.Minute, acquire("b"), failed(2, "b")), breaker.Applied,
			standing{session.BreakerIsOpen, 5, 3, 3, 6 * time.Minute, 0},
		},
		{"a probe gives up its lease", after(probing, neutral(1, "a"), acquire("b")), breaker.Leased, probed},
		{"somebody else's success", after(probing, worked(1, "b")), breaker.Ignored, probed},
		{"nobody's success", after(probing, worked(1)), breaker.Ignored, probed},
		{
			"a renewed lease", after(probing, 50*time.Second, breaker.RenewRequest{Holder: "a"}, 50*time.Second, acquire("b")),
			breaker.Refused, probed,
		},
		{"a dead prober", after(probing, time.Minute, acquire("b")), breaker.Leased, probed},
		{"a prober back from the dead", after(probing, time.Minute, acquire("b"), worked(1, "a")), breaker.Ignored, probed},
		{
			"a lease that is gone cannot be renewed", after(probing, time.Minute, breaker.RenewRequest{Holder: "a"}), breaker.Refused,
			probed,
		},
		{"closed needs no lease", []any{acquire("a")}, breaker.Passed, closed(0, 0)},
		{
			"tripped until reset",
			[]any{trip, 100 * time.Hour, acquire("a")},
			breaker.Refused,
			standing{session.BreakerIsOpen, 0, 1, 1, 0, 0},
		},
		{
			"tripped for an hour",
			[]any{tripHour, time.Hour, acquire("a")},
			breaker.Leased,
			standing{session.BreakerHalfOpen, 0, 1, 1, time.Hour, 1},
		},
		{
			"a trip ends a probe", after(probing, trip, worked(1, "a")), breaker.Ignored,
			standing{session.BreakerIsOpen, 3, 2, 2, 0, 0},
		},
		{"reset", after(opened, reset), breaker.Applied, closed(0, 2)},
		{"a reset fences what came before", after(opened, reset, failed(1)), breaker.Ignored, closed(0, 2)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := tell(settings, c.steps...)
			require.Equal(t, c.last, s.effects[len(s.effects)-1])
			got := standing{s.state.At(s.now).State, s.state.Failures, s.state.Trips, s.state.Generation, 0, len(s.state.Probes)}
			if s.state.OpenUntil != nil {
				got.until = s.state.OpenUntil.Sub(epoch)
			}
			require.Equal(t, c.want, got)
		})
	}
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
