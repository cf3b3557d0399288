package index_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/index"
	"github.com/maestro-hive/maestro/internal/session"
)

// Whatever becomes of the documents, the index says after a refresh what they and the calls say, in this
// process and in another that shares it.
func TestTheIndexSaysWhatTheDocumentsSay(t *testing.T) {
	t.Parallel()
	w := newStand(t, filepath.Join(t.TempDir(), "store"))
	x, other := w.open(), w.open()
	w.refresh(x)
	w.agrees(x)
	for i := range 40 {
		w.add(i)
	}
	require.Equal(t, 40, w.refresh(x).Changed)
	w.agrees(x)
	for round := range 25 {
		for range 1 + w.r.IntN(4) {
			w.change(key(fmt.Sprintf("s%05d", w.r.IntN(40))))
		}
		if round%5 == 0 {
			w.add(40 + round)
		}
		if round%2 == 0 {
			w.refresh(other)
			w.agrees(other)
		}
		w.refresh(x)
		w.agrees(x)
	}
	w.settled(x)
	w.agrees(other)
}

func TestARefreshReadsWhatHasChanged(t *testing.T) {
	t.Parallel()
	w := newStand(t, filepath.Join(t.TempDir(), "store"))
	for i := range 50 {
		w.add(i)
	}
	x := w.open()
	done := w.refresh(x)
	require.Equal(t, []int{50, 50, 50}, []int{done.Sessions, done.Read, done.Changed})
	// What was just written is read again until a later change has a later time.
	require.Positive(t, w.refresh(x).Read)
	w.settled(x)

	require.NoError(t, w.store.UpdateExecution(key("s00007"), func(e *session.Execution) { e.Status.Status = session.Completed; e.Reason = "it is done" }))
	done = w.refresh(x)
	require.Equal(t, []int{1, 1}, []int{done.Read, done.Changed})
	require.Zero(t, w.refresh(x).Changed, "a recent change is read again and is no other")

	require.NoError(t, w.store.UpdateExecution(key("free"), func(e *session.Execution) { e.Status.Status = session.Completed }))
	require.Equal(t, 51, w.refresh(x).Sessions)
	require.NoError(t, os.RemoveAll(w.file(key("free"), "")))
	require.Equal(t, 1, w.refresh(x).Removed)
	require.NoError(t, os.RemoveAll(w.file(key("s00008"), "")))
	done = w.refresh(x)
	require.Equal(t, []int{50, 0}, []int{done.Sessions, done.Removed}, "what it has cost stays")
	w.agrees(x)

	// A damaged document moves into the quarantine and is named once; the session's costs stay.
	k := key("s00009")
	require.NoError(t, os.WriteFile(w.file(k, "new"), []byte("{}"), 0o600))
	require.NoError(t, os.Rename(w.file(k, "new"), w.file(k, "execution_state.json")))
	done = w.refresh(x)
	require.Len(t, done.Faults, 1)
	require.ErrorIs(t, done.Faults[0], session.ErrCorrupt)
	require.Empty(t, w.refresh(x).Faults)
	w.agrees(x)
}

func TestASessionThatCannotBeReadIsSkipped(t *testing.T) {
	t.Parallel()
	w := filledStand(t)
	x := w.open()
	w.settled(x)
	document := w.file(key("s00007"), "execution_state.json")
	require.NoError(t, os.Rename(document, document+".kept"))
	require.NoError(t, os.Mkdir(document, 0o700))
	require.NoError(t, w.store.UpdateExecution(key("s00009"), func(e *session.Execution) { e.Reason = "changed" }))
	done := w.refresh(x)
	require.Equal(t, []int{60, 1, 1, 0}, []int{done.Sessions, done.Skipped, done.Changed, done.Removed})
	require.Len(t, done.Faults, 1)
	require.ErrorContains(t, done.Faults[0], "s00007")
	all, err := x.Sessions(t.Context(), index.Filter{Namespace: namespace})
	require.NoError(t, err)
	require.Len(t, all, 60, "its previous data stays")

	require.NoError(t, os.Remove(document))
	require.NoError(t, os.Rename(document+".kept", document))
	require.Zero(t, w.refresh(x).Skipped)
	w.agrees(x)
}

func TestListsAreFilteredAndComeInPages(t *testing.T) {
	t.Parallel()
	w := filledStand(t)
	x := w.open()
	w.refresh(x)
	ctx := t.Context()
	all, err := x.Sessions(ctx, index.Filter{Namespace: namespace})
	require.NoError(t, err)
	require.Len(t, all, 60)

	since, until := epoch.Add(time.Hour), epoch.Add(3*time.Hour)
	filters := map[string]func(s index.Session, i int) bool{
		"team": func(s index.Session, _ int) bool { return s.Team == "team2" || s.Team == "team5" },
		"state": func(s index.Session, _ int) bool {
			return s.Status == session.Failed || s.Status == session.HelpIsNeeded
		},
		"time": func(s index.Session, _ int) bool { return !s.StartedAt.Before(since) && s.StartedAt.Before(until) },
		"text": func(s index.Session, _ int) bool { return s.Session[len(s.Session)-1] == '4' },
		"none": func(index.Session, int) bool { return true },
	}
	for name, has := range filters {
		f := index.Filter{Namespace: namespace, Limit: 7}
		switch name {
		case "team":
			f.Teams = []string{"team2", "team5"}
		case "state":
			f.Status = []session.State{session.Failed, session.HelpIsNeeded}
		case "time":
			f.Since, f.Until = since, until
		case "text":
			f.Text = "4: ÄNDERE"
		}
		var want, got []index.Session
		for i, s := range all {
			if has(s, i) {
				want = append(want, s)
			}
		}
		for {
			page, err := x.Sessions(ctx, f)
			require.NoError(t, err)
			got = append(got, page...)
			if len(page) < f.Limit {
				break
			}
			f.After = page[len(page)-1].Cursor()
		}
		require.NotEmpty(t, want, name)
		require.Equal(t, want, got, name)
	}
	none, err := x.Sessions(ctx, index.Filter{Namespace: namespace, Labels: map[string]string{"area": "web"}})
	require.NoError(t, err)
	require.Empty(t, none)
	for _, s := range all {
		require.Equal(t, 2, s.Answers)
		require.Equal(t, 1, s.Approvals)
		require.Equal(t, 20*time.Minute, s.Approving)
		require.Equal(t, time.Hour, s.Waited)
		if s.Status == session.HelpIsNeeded {
			require.Equal(t, s.StartedAt.Add(time.Hour), *s.WaitingSince)
		}
	}
}

func TestStatisticsAddUp(t *testing.T) {
	t.Parallel()
	w := filledStand(t)
	x := w.open()
	w.refresh(x)
	ctx := t.Context()
	all, err := x.Sessions(ctx, index.Filter{Namespace: namespace})
	require.NoError(t, err)
	in := map[session.State]int{}
	for _, s := range all {
		in[s.Status]++
	}
	for _, f := range []index.Filter{{Namespace: namespace}, {Namespace: namespace, Since: epoch.Add(-time.Hour)}, {Namespace: namespace, Since: epoch.Truncate(24 * time.Hour)}} {
		for _, by := range [][]string{nil, {"team"}, {"day"}, {"persona"}, {"agent", "model"}} {
			groups, err := x.Statistics(ctx, by, f)
			require.NoError(t, err)
			var sum index.AssignmentOutcomes
			var sessions index.SessionOutcomes
			for _, g := range groups {
				sum.All += g.Assignments.All
				sum.Attempts += g.Assignments.Attempts
				sum.Failures += g.Assignments.Failures
				sum.Failed += g.Assignments.Failed
				if g.Sessions != nil {
					sessions.Completed += g.Sessions.Completed
					sessions.Failed += g.Sessions.Failed
					sessions.WaitedSeconds += g.Sessions.WaitedSeconds
					sessions.ApprovalSeconds += g.Sessions.ApprovalSeconds
				}
			}
			require.Equal(t, []int{180, 360, 180, in[session.Failed]}, []int{sum.All, sum.Attempts, sum.Failures, sum.Failed}, "by %v", by)
			require.InDelta(t, 2, sum.AttemptsEach(), 0)
			if len(by) == 0 || by[0] == "team" || by[0] == "day" {
				require.Equal(t, []int{in[session.Completed], in[session.Failed]}, []int{sessions.Completed, sessions.Failed}, "by %v", by)
				require.InDelta(t, 60*3600, sessions.WaitedSeconds, 0.001)
				require.InDelta(t, 20*3600, sessions.ApprovalSeconds, 0.001)
			}
		}
	}
}

func TestAReaderIsToldOfChangesOnce(t *testing.T) {
	t.Parallel()
	w := newStand(t, filepath.Join(t.TempDir(), "store"))
	for i := range 5 {
		w.add(i)
	}
	require.NoError(t, w.store.UpdateExecution(key("free"), func(e *session.Execution) { e.Team = "no calls" }))
	ctx := t.Context()
	x := w.open()
	w.refresh(x)
	changes, at, err := x.Changes(ctx, namespace, index.Position{})
	require.NoError(t, err)
	require.Len(t, changes, 6)
	w.refresh(x)
	changes, at, err = x.Changes(ctx, namespace, at)
	require.NoError(t, err)
	require.Empty(t, changes)

	require.NoError(t, x.Close())
	x = w.open() // as another process would
	w.add(9)
	require.NoError(t, os.RemoveAll(w.file(key("free"), "")))
	w.refresh(x)
	changes, next, err := x.Changes(ctx, namespace, at)
	require.Equal(t, next, w.refresh(w.open()).Position, "who has found nothing is told what others have found")
	require.NoError(t, err)
	require.Equal(t, []string{"free", "s00009"}, []string{changes[0].Session, changes[1].Session})
	require.Equal(t, []bool{true, false}, []bool{changes[0].Removed, changes[1].Removed})
	require.Greater(t, next.Sequence, at.Sequence)

	_, _, err = x.Changes(ctx, namespace, index.Position{Epoch: "another", Sequence: 1})
	require.ErrorIs(t, err, index.ErrReset)
	require.NoError(t, os.RemoveAll(filepath.Join(w.dir, "index")))
	w.refresh(x)
	_, now, err := x.Changes(ctx, namespace, next)
	require.ErrorIs(t, err, index.ErrReset)
	require.NotEqual(t, next.Epoch, now.Epoch)
}

// Many at once share refreshes, and each sees what was there when it asked.
func TestManyReadersShareRefreshes(t *testing.T) {
	t.Parallel()
	w := newStand(t, filepath.Join(t.TempDir(), "store"))
	for i := range 10 {
		w.add(i)
	}
	x := w.open()
	var readers sync.WaitGroup
	for i := range 30 {
		name := fmt.Sprintf("new%d", i)
		require.NoError(t, w.store.UpdateExecution(key(name), func(e *session.Execution) { e.Team = "late" }))
		readers.Go(func() {
			_, err := x.Refresh(t.Context(), namespace)
			assert.NoError(t, err)
			_, found, err := x.Session(t.Context(), key(name))
			assert.NoError(t, err)
			assert.True(t, found, name)
		})
	}
	readers.Wait()
	w.agrees(x)
}
