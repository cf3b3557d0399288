package index_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/index"
	"github.com/maestro-hive/maestro/internal/session"
)

// benchSessions is how many sessions the store of the benchmark has.
const benchSessions = 10_000

// BenchmarkIndex compares what is asked of an index of 10,000 sessions with reading their
// documents: x_read is the part of that, in time of processors. The store is in memory where that can be, so
// that writing it does not take long.
func BenchmarkIndex(b *testing.B) {
	top := b.TempDir()
	if dir, err := os.MkdirTemp("/dev/shm", "maestro-index-*"); err == nil {
		b.Cleanup(func() { _ = os.RemoveAll(dir) })
		top = dir
	}
	w := newStand(b, filepath.Join(top, "store"))
	w.calm = true
	for i := range benchSessions {
		w.add(i)
	}
	ctx := b.Context()
	start, busy := time.Now(), processors(b)
	_, err := w.store.Executions(ctx, namespace)
	require.NoError(b, err)
	w.costs()
	read, readBusy := time.Since(start), processors(b)-busy
	start, busy = time.Now(), processors(b)
	x := w.open()
	w.refresh(x)
	built, builtBusy := time.Since(start), processors(b)-busy
	w.settled(x)
	info, err := os.Stat(w.indexFile())
	require.NoError(b, err)

	measure := func(name string, run func() error) {
		b.Run(name, func(b *testing.B) {
			before := processors(b)
			for b.Loop() {
				require.NoError(b, run())
			}
			busy := (processors(b) - before) / time.Duration(b.N)
			b.ReportMetric(busy.Seconds()/readBusy.Seconds(), "x_read")
			b.ReportMetric(float64(busy.Microseconds())/1000, "cpu-ms/run")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/run")
			b.ReportMetric(0, "ns/op")
		})
	}
	b.Run("Build", func(b *testing.B) {
		b.ReportMetric(builtBusy.Seconds()/readBusy.Seconds(), "x_read")
		b.ReportMetric(float64(builtBusy.Milliseconds()), "cpu-ms/run")
		b.ReportMetric(float64(built.Milliseconds()), "ms/run")
		b.ReportMetric(float64(read.Milliseconds()), "ms/read")
		b.ReportMetric(float64(info.Size())/benchSessions, "B/session")
	})
	all := index.Filter{Namespace: namespace}
	with := func(change func(f *index.Filter)) index.Filter {
		f := all
		f.Limit = 50
		change(&f)
		return f
	}
	refresh := func() error { _, err := x.Refresh(ctx, namespace); return err }
	measure("RefreshUnchanged", refresh)
	measure("OpenAndRefreshUnchanged", func() error {
		y, err := index.Open(ctx, w.store, index.Options{})
		if err == nil {
			_, err = y.Refresh(ctx, namespace)
		}
		return err
	})
	measure("RefreshOneChanged", func() error {
		if err := w.store.UpdateExecution(key("s00007"), func(e *session.Execution) { e.HistoryEvents++ }); err != nil {
			return err
		}
		return refresh()
	})
	for name, f := range map[string]index.Filter{
		"SessionsPage": with(func(*index.Filter) {}), "SessionsTeamAndState": with(func(f *index.Filter) { f.Teams, f.Status = []string{"team3"}, []session.State{session.Failed} }),
		"SessionsText": with(func(f *index.Filter) { f.Text = "no such requirement" }), "SessionsAll": all,
	} {
		measure(name, func() error { _, err := x.Sessions(ctx, f); return err })
	}
	sums := func(name string, by []string, since string, f index.Filter) {
		measure(name, func() error { _, _, err := x.Usage(ctx, by, since, f); return err })
	}
	sums("UsageBySessionAndTeam", []string{"session", "team"}, "", all)
	sums("UsageByDay", []string{"day"}, "", all)
	sums("UsageByPhaseAndPersona", []string{"phase", "persona"}, "2026-03-10", all)
	sums("UsageByModelOfState", []string{"model"}, "", with(func(f *index.Filter) { f.Status = []session.State{session.Failed} }))
	measure("StatisticsByTeam", func() error { _, err := x.Statistics(ctx, []string{"team"}, all); return err })
	measure("StatisticsByAgentSince", func() error {
		_, err := x.Statistics(ctx, []string{"agent", "model"}, with(func(f *index.Filter) { f.Since = epoch.AddDate(0, 0, 9) }))
		return err
	})
}

// processors is how long this process has been at work, on all processors together.
func processors(b *testing.B) time.Duration {
	var u unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
