package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

// dailyCap is what the sessions of team t may spend in a day.
const dailyCap = 1_000

func sharer(name string) session.Key {
	return session.Key{Namespace: webSession.Namespace, Session: name}
}

func dayFile(s *store.Store) string {
	return filepath.Join(s.Dir(), "budgets", webSession.Namespace, "t", budget.Date(now)+".json")
}

// share is a process that makes calls in a session of its own, all of them paid for
// from the day that it shares with the others, until it is killed.
func share(dir string, args []string) error {
	s, err := store.Open(dir, options())
	if err != nil {
		return err
	}
	key, me := sharer(args[0]), id("backend")
	if _, ok, err := s.Lock(key, me); err != nil || !ok {
		return errors.Join(err, errors.New("somebody else has the lock"))
	}
	j, err := s.Journal(key, me)
	if err != nil {
		return err
	}
	add := func(e budget.Entry) error {
		e.Seq, e.At = j.Next(), now
		return errors.Join(s.AppendEntry(key, me, e), j.Apply(e))
	}
	enter := func() error {
		return s.UpdateLedger(key, func(l *budget.Ledger) error {
			l.Limit("t", budget.Limits{Daily: spec.Cap{Tokens: dailyCap}})
			l.SetRow(me, j.Row(nil), now)
			return nil
		})
	}
	for _, call := range j.Open() { // of a process that was killed
		err = errors.Join(err, add(budget.Entry{Kind: budget.Unsettled, Call: call.ID}))
	}
	err = errors.Join(err, enter())
	fmt.Println("ready")
	for n := 0; err == nil; n++ {
		var verdict budget.Verdict
		want := cost.Amount{Tokens: 1 + rand.Int64N(200)}
		err = s.UpdateLedger(key, func(l *budget.Ledger) error {
			verdict = l.Reserve(me, j.Next(), want, cost.Amount{Tokens: 1})
			return nil
		})
		if err != nil || verdict.Wait || verdict.Refused != "" {
			for _, call := range j.Unsettled() { // as a person would, so that it continues for ever
				err = errors.Join(err, add(budget.Entry{Kind: budget.Closed, Call: call.ID, Usage: &cost.Usage{}}), enter())
			}
			continue
		}
		begins := begun(j.Next(), n)
		begins.Estimate = &cost.Usage{OutputTokens: verdict.Granted.Tokens}
		err = errors.Join(err, add(begins))
		err = errors.Join(err, add(budget.Entry{Kind: budget.Unsettled, Call: j.Next() - 1}), enter())
	}
	return err
}

// held is what a day's sessions hold by their journals and, for calls under way, by
// their ledgers.
func held(t *testing.T, s *store.Store, names []string) (spent, reserved int64) {
	t.Helper()
	for _, name := range names {
		l, err := s.Ledger(sharer(name))
		require.NoError(t, err)
		row := l.On(budget.Date(now))
		spent, reserved = spent+row.Spent.Tokens+row.Unsettled.Tokens, reserved+row.Reserved.Tokens
	}
	return spent, reserved
}

func TestProcessesThatAreKilledNeverPassTheirDay(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	names := []string{"s0", "s1", "s2", "s3"}
	for round := range 6 {
		var stops []func()
		for _, name := range names {
			cmd := process(t, "share", s.Dir(), name)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			ready := make([]byte, len("ready\n"))
			_, err = out.Read(ready)
			require.NoError(t, err)
			stops = append(stops, func() {
				require.NoError(t, cmd.Process.Kill())
				_ = cmd.Wait()
			})
		}
		for range 200 {
			d, err := s.Day(webSession.Namespace, "t")
			require.NoError(t, err)
			sum := d.Sum()
			require.LessOrEqual(t, sum.Spent.Tokens+sum.Unsettled.Tokens+sum.Reserved.Tokens, int64(dailyCap))
			if round%2 == 1 && rand.IntN(50) == 0 { // it is made again from the ledgers
				require.NoError(t, os.WriteFile(dayFile(s), []byte("{}"), 0o600))
			}
		}
		for _, stop := range stops {
			stop()
		}
	}
	spent, reserved := held(t, s, names)
	require.LessOrEqual(t, spent+reserved, int64(dailyCap))
	require.Positive(t, spent+reserved)
	before, err := s.Day(webSession.Namespace, "t")
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dayFile(s)))
	again, err := s.Day(webSession.Namespace, "t")
	require.NoError(t, err)
	for _, name := range names { // a killed one's day may know of what its ledger does not
		require.LessOrEqual(t, again.Rows[name].Spent.Tokens, before.Rows[name].Spent.Tokens)
	}
}

func TestALostDayIsMadeFromTheLedgersAndKeepsItsRaises(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	_, err := s.Day(webSession.Namespace, "t")
	require.ErrorIs(t, err, session.ErrNotFound)
	for n, name := range []string{"s0", "s1", "else"} {
		require.NoError(t, s.UpdateLedger(sharer(name), func(l *budget.Ledger) error {
			of := "t"
			if name == "else" {
				of = "u"
			}
			l.Limit(of, budget.Limits{Daily: spec.Cap{Tokens: dailyCap}})
			l.SetRow(id("backend"), budget.Row{
				Spent:     []budget.Spending{{Date: budget.Date(now), Agent: "a", Calls: 1, Answered: 1, Usage: cost.Usage{InputTokens: int64(100 + n)}, Largest: cost.Amount{Tokens: int64(100 + n)}}},
				Unsettled: []budget.UnsettledCall{{Call: 3, Date: budget.Date(now), Estimate: cost.Usage{OutputTokens: 7}}},
				Reserved:  map[int64]cost.Amount{5: {Tokens: 9}},
			}, now)
			return nil
		}))
	}
	require.NoError(t, s.UpdateDay(webSession.Namespace, "t", func(d *budget.Day) error {
		d.Raise(budget.Raise{ID: "1", By: "ann", Added: cost.Amount{Tokens: 50}, When: now})
		return nil
	}))
	want, err := s.Day(webSession.Namespace, "t")
	require.NoError(t, err)
	require.Equal(t, spec.Cap{Tokens: dailyCap + 50}, want.Limit())
	require.Equal(t, budget.DayRow{
		Spent: cost.Amount{Tokens: 201}, Unsettled: cost.Amount{Tokens: 14}, Calls: 2, Reserved: cost.Amount{Tokens: 18},
	}, want.Sum())
	sound, err := os.ReadFile(dayFile(s))
	require.NoError(t, err)
	someDamage(sound, func(damaged []byte, what string, at int) {
		require.NoError(t, os.WriteFile(dayFile(s), damaged, 0o600))
		got, err := s.Day(webSession.Namespace, "t")
		require.NoError(t, err)
		require.Equal(t, want.Rows, got.Rows, "%s at %d", what, at)
		require.Equal(t, want.Raises, got.Raises)
		require.Equal(t, want.Largest, got.Largest)
	})

	report, err := s.VerifyAll(t.Context())
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	raises := strings.TrimSuffix(dayFile(s), ".json") + ".raises.jsonl"
	require.NoError(t, os.WriteFile(raises, []byte("{}\n"), 0o600))
	require.NoError(t, s.UpdateDay(webSession.Namespace, "t", func(*budget.Day) error { return nil }))
	report, err = s.VerifyAll(t.Context())
	require.NoError(t, err)
	require.Len(t, report.Faults, 1)
}

func TestATeamsNextDayBeginsWithTheCallsUnderWay(t *testing.T) {
	t.Parallel()
	at := now
	o := options()
	o.Clock = func() time.Time { return at }
	s, err := store.Create(filepath.Join(t.TempDir(), "state"), o)
	require.NoError(t, err)
	lost := budget.Row{Unsettled: []budget.UnsettledCall{{Call: 3, Date: budget.Date(now), Estimate: cost.Usage{OutputTokens: 40}}}}
	update := func(change func(l *budget.Ledger)) {
		require.NoError(t, s.UpdateLedger(sharer("s"), func(l *budget.Ledger) error { change(l); return nil }))
	}
	update(func(l *budget.Ledger) {
		l.Limit("t", budget.Limits{Daily: spec.Cap{Tokens: 100}})
		l.SetRow(id("backend"), lost, at)
		require.Equal(t, int64(60), l.Reserve(id("frontend"), 1, cost.Amount{Tokens: 60}, cost.Amount{Tokens: 60}).Granted.Tokens)
	})
	at = at.AddDate(0, 0, 1)
	day, err := s.Day(webSession.Namespace, "t")
	require.NoError(t, err)
	require.Equal(t, budget.DayRow{Reserved: cost.Amount{Tokens: 60}}, day.Sum())

	// What is written off after midnight is given back to the day that it was taken from.
	update(func(l *budget.Ledger) {
		l.SetRow(id("backend"), budget.Row{Spent: []budget.Spending{{Date: budget.Date(now)}}}, at)
	})
	at = now
	day, err = s.Day(webSession.Namespace, "t")
	require.NoError(t, err)
	require.Zero(t, day.Sum().Unsettled)
}

// TestOldDaysArePruned with their raises, and no others: who has raised a budget may be asked for.
func TestOldDaysArePruned(t *testing.T) {
	t.Parallel()
	first := newStore(t)
	_, err := first.Content.PutBlob(t.Context(), []byte("x"))
	require.NoError(t, err)
	spend := func(s *store.Store, by time.Duration) *store.Store {
		s = later(t, s, by)
		require.NoError(t, s.UpdateDay(webSession.Namespace, "t", func(d *budget.Day) error {
			d.Cap = spec.Cap{Tokens: dailyCap}
			d.Raise(budget.Raise{Scope: budget.DayScope, Added: cost.Amount{Tokens: 5}, When: now.Add(by)})
			return nil
		}))
		return s
	}
	spend(first, 0)
	s := spend(first, 20*24*time.Hour)
	require.FileExists(t, dayFile(s))
	for _, c := range []struct {
		at      time.Duration
		options session.PruneOptions
		gone    int
	}{
		{30 * 24 * time.Hour, session.PruneOptions{}, 0},
		{40 * 24 * time.Hour, session.PruneOptions{OlderThan: 45 * 24 * time.Hour}, 0},
		{40 * 24 * time.Hour, session.PruneOptions{DryRun: true}, 1},
		{40 * 24 * time.Hour, session.PruneOptions{}, 1},
		{40 * 24 * time.Hour, session.PruneOptions{}, 0},
	} {
		s = later(t, s, c.at)
		report, err := s.Prune(t.Context(), c.options)
		require.NoError(t, err)
		require.Equal(t, c.gone, report.Days)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(dayFile(s)), "*"))
	require.NoError(t, err)
	require.Len(t, left, 2, "the later day and its raises")
	require.NoFileExists(t, dayFile(s))
	sound(t, s)
}
