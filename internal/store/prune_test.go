package store_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/sandbox/workdir"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// closed writes a chain of a session that ended ten days ago.
func closed(t testing.TB, s *store.Store, key session.Key) []spec.Digest {
	t.Helper()
	names := chain(t, s, key)
	put(t, s, key, func(e *session.Execution) {
		started := now
		e.Status.Status, e.StartedAt, e.ClosedAt = session.Completed, &started, &started
	})
	return names
}

// later opens the store as it is seen after some time. Files bear the time of
// the machine, so all that is there is made as old as the tests' clock says.
func later(t testing.TB, s *store.Store, by time.Duration) *store.Store {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join(s.Dir(), "blobs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Chtimes(path, now, now)
	}))
	o := options()
	o.Clock = func() time.Time { return now.Add(by) }
	again, err := store.Open(s.Dir(), o)
	require.NoError(t, err)
	return again
}

const tenDays = 10 * 24 * time.Hour

func sound(t testing.TB, s *store.Store) store.Report {
	t.Helper()
	report := verified(t, s)
	require.Empty(t, report.Faults)
	return report
}

func TestOldCheckpointsArePruned(t *testing.T) {
	t.Parallel()
	model := newStore(t)
	names := closed(t, model, webSession)
	stored(t, model, []byte("nobody needs this"))
	s := later(t, model, tenDays)
	before := sound(t, s)

	plan := pruned(t, s, session.PruneOptions{Keep: 2, DryRun: true})
	require.Equal(t, before, sound(t, s), "a dry run changes nothing")
	require.True(t, plan.DryRun)

	report := pruned(t, s, session.PruneOptions{Keep: 2})
	plan.DryRun = false
	require.Equal(t, plan, report, "a dry run says what goes")
	require.Equal(t, 2, report.Checkpoints)
	require.Equal(t, 2, report.Kept)
	require.Equal(t, []session.PrunedSession{{Key: webSession, Checkpoints: []spec.Digest{names[1], names[0]}}}, report.Pruned)
	require.Equal(t, 3, report.Blobs, "two checkpoints, and what nobody needs: the trees in between are in records")

	after := sound(t, s)
	require.Equal(t, before.Blobs-report.Blobs, after.Blobs)
	require.Equal(t, before.Bytes-report.Bytes, after.Bytes)
	list, err := s.Checkpoints(t.Context(), webSession)
	require.NoError(t, err)
	require.Equal(t, []string{"test", "build"}, phasesOf(list))
	require.NoFileExists(t, checkpointPath(s, "init"))
	require.NoFileExists(t, checkpointPath(s, "design"))

	again := pruned(t, s, session.PruneOptions{Keep: 2})
	require.Zero(t, again.Checkpoints+again.Blobs)
}

func TestPruningSparesWhatMayBeNeeded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		age     time.Duration
		options session.PruneOptions
		change  func(e *session.Execution)
		removed int
		blobs   int
	}{
		"the newest":        {age: tenDays, options: session.PruneOptions{Keep: 3}, removed: 1, blobs: 2},
		"the defaults":      {age: tenDays, blobs: 1},
		"young checkpoints": {age: 6 * 24 * time.Hour, options: session.PruneOptions{Keep: 1}, blobs: 1},
		"young blobs":       {age: 23 * time.Hour, options: session.PruneOptions{Keep: 1, OlderThan: time.Hour}},
		"a running session": {
			age: tenDays, options: session.PruneOptions{Keep: 1},
			change: func(e *session.Execution) { e.Status.Status = session.Running },
		},
		"one that Temporal runs": {age: tenDays, options: session.PruneOptions{
			Keep: 1, Running: map[session.Key]time.Time{webSession: now},
		}},
		"all since a session that waits to be admitted": {age: tenDays, options: session.PruneOptions{
			Keep: 1, Running: map[session.Key]time.Time{{Namespace: "default", Session: "new"}: now},
		}},
		"an admitted session": {
			age: tenDays, options: session.PruneOptions{Keep: 1},
			change: func(e *session.Execution) { e.Status.Status = "" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := newStore(t)
			closed(t, model, webSession)
			if c.change != nil {
				put(t, model, webSession, c.change)
			}
			stored(t, model, []byte("nobody needs this"))
			s := later(t, model, c.age)
			report := pruned(t, s, c.options)
			if name != "all since a session that waits to be admitted" {
				require.Equal(t, c.removed, report.Checkpoints)
			}
			require.Equal(t, c.blobs, report.Blobs, "%+v", report)
			sound(t, s)
		})
	}
}

// TestPruningKeepsAConversationThatMayContinue: a session that has failed can be resumed, one
// that is completed has nothing to continue.
func TestPruningKeepsAConversationThatMayContinue(t *testing.T) {
	t.Parallel()
	for status, keeps := range map[session.State]bool{session.Failed: true, session.WasCancelled: true, session.Completed: false} {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			model := newStore(t)
			busySession(t, model, webSession)
			put(t, model, webSession, func(e *session.Execution) {
				started := now
				e.Status.Status, e.StartedAt, e.ClosedAt = status, &started, &started
			})
			s := later(t, model, tenDays)
			pruned(t, s, session.PruneOptions{})
			r, err := s.State.Record(t.Context(),
				state.Assignment{Key: webSession, AssignmentID: spec.AssignmentID{Phase: "deploy", Persona: "bob"}})
			require.NoError(t, err)
			err = s.Content.Intact(t.Context(), r.Conversation.Home)
			if keeps {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, session.ErrNotFound)
			}
			sound(t, s)
		})
	}
}

func TestWhatYoungBlobsNameIsKept(t *testing.T) {
	t.Parallel()
	model := newStore(t)
	names := closed(t, model, webSession)
	tree := snapshot(t, model, map[string]string{"a.txt": "only in this tree"})
	s := later(t, model, tenDays)
	// Who stores a tree again may store only what names its files.
	data, err := s.Content.Blob(t.Context(), tree)
	require.NoError(t, err)
	stored(t, s, data)
	// Who reads an old checkpoint may be about to build on it.
	_, err = s.Checkpoint(t.Context(), names[1])
	require.NoError(t, err)
	require.Equal(t, 2, pruned(t, s, session.PruneOptions{Keep: 1}).Checkpoints)
	list, err := s.Checkpoints(t.Context(), webSession)
	require.NoError(t, err)
	require.Equal(t, []string{"test", "design"}, phasesOf(list))
	require.NoError(t, s.Content.Materialise(t.Context(), tree, filepath.Join(t.TempDir(), "tree")))
	sound(t, s)
}

// TestPruningKeepsWhatRowsName and what is below it: files of an answer and of an upload, and the files that a tool wrote.
func TestPruningKeepsWhatRowsName(t *testing.T) {
	t.Parallel()
	model := newStore(t)
	closed(t, model, webSession)
	answered := snapshot(t, model, map[string]string{"dir/a.txt": "supplied by ann"})
	e, err := model.State.Execution(t.Context(), webSession)
	require.NoError(t, err)
	_, _, err = model.State.PutBoundary(t.Context(), state.Boundary{
		Key: webSession, TemporalRun: e.RunID, FirstRun: e.RunID, At: e.BoundaryAt.Add(time.Second), Status: e.Status,
		Answers: []session.Answer{{Request: "1", By: "ann", Action: session.AnswerSupply, Files: answered, At: now}},
	})
	require.NoError(t, err)
	uploaded := snapshot(t, model, map[string]string{"dir/b.txt": "uploaded by ann"})
	require.NoError(t, model.State.AddUpload(t.Context(), state.Upload{Team: "web", Digest: string(uploaded), By: "ann"}, time.Hour))
	waste := snapshot(t, model, map[string]string{"dir/c.txt": "named by nobody"})
	s := later(t, model, tenDays)
	require.Equal(t, 3, pruned(t, s, session.PruneOptions{}).Blobs, "a file, its directory and the top")
	for _, tree := range []spec.Digest{answered, uploaded} {
		require.NoError(t, s.Content.Materialise(t.Context(), tree, filepath.Join(t.TempDir(), "tree")))
	}
	require.ErrorIs(t, s.Content.Intact(t.Context(), waste), session.ErrNotFound)
	sound(t, s)
}

func TestAForkKeepsWhatItsSourceLoses(t *testing.T) {
	t.Parallel()
	model := newStore(t)
	names := closed(t, model, webSession)
	fork := session.Key{Namespace: "default", Session: "fork"}
	c, err := model.Checkpoint(t.Context(), names[1])
	require.NoError(t, err)
	c.Previous, c.CurrentPhase = names[1], "init"
	c.Assignments[0].Status = session.Restored
	head, err := model.PutCheckpoint(t.Context(), fork, c)
	require.NoError(t, err)
	put(t, model, fork, func(e *session.Execution) { e.Status.Status = session.Completed })
	s := later(t, model, tenDays)
	for _, keep := range []int{2, 1} {
		pruned(t, s, session.PruneOptions{Keep: keep})
		sound(t, s)
		list, err := s.Checkpoints(t.Context(), fork)
		require.NoError(t, err)
		require.Len(t, list, 1, "those of its source are not its own")
		require.Equal(t, head, list[0].Name)
		require.NoError(t, s.Content.Materialise(t.Context(), list[0].Tree, filepath.Join(t.TempDir(), "tree")))
	}
}

func TestADamagedStoreIsNotPruned(t *testing.T) {
	t.Parallel()
	model := newStore(t)
	closed(t, model, webSession)
	s := later(t, model, tenDays)
	list, err := s.Checkpoints(t.Context(), webSession)
	require.NoError(t, err)
	require.NoError(t, os.Remove(blobPath(s, list[0].Tree)))
	_, err = s.Prune(t.Context(), session.PruneOptions{Keep: 1})
	require.ErrorIs(t, err, session.ErrNotFound)
	require.ErrorContains(t, err, "damaged store")
	require.FileExists(t, checkpointPath(s, "init"))
}

// workDirs are the directories that a store's agents work in.
func workDirs(s *store.Store) *workdir.Dirs {
	return workdir.New(workdir.Options{Root: workdir.DefaultRoot(s.Dir())})
}

func TestPruningRemovesWhereClosedSessionsWorked(t *testing.T) {
	t.Parallel()
	model := newStore(t)
	dirs, others := workDirs(model), workdir.New(workdir.Options{Root: t.TempDir()}) // agents of another user work elsewhere
	all := []session.PrunableDirs{dirs, workdir.New(workdir.Options{Root: filepath.Join(t.TempDir(), "absent")}), others}
	old, worked := webSession, session.Key{Namespace: "default", Session: "worked-on"}
	for _, key := range []session.Key{old, worked} {
		closed(t, model, key)
		w, err := dirs.Make(key, id("backend"))
		require.NoError(t, err)
		writeTree(t, w.Tree, map[string]string{"a/b.txt": "x"})
	}
	w, err := others.Make(old, id("backend"))
	require.NoError(t, err)
	s := later(t, model, tenDays)
	held, ok, err := s.Lock(t.Context(), worked, id("backend"))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, 1, pruned(t, s, session.PruneOptions{WorkDirs: all}).WorkDirs)
	require.NoDirExists(t, filepath.Join(s.Dir(), "work/default/web-1"))
	require.NoDirExists(t, w.Tree)
	require.DirExists(t, filepath.Join(s.Dir(), "work/default/worked-on"))
	held.Unlock()
	require.Equal(t, 1, pruned(t, s, session.PruneOptions{WorkDirs: all}).WorkDirs)
}

// TestPruningRemovesWhereSessionsWorkedThatTemporalDoesNotRun has a session that was
// terminated, so that the store has not heard of its end.
func TestPruningRemovesWhereSessionsWorkedThatTemporalDoesNotRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		age     time.Duration
		options session.PruneOptions
		status  session.State
		gone    int
	}{
		"terminated":           {time.Hour, session.PruneOptions{Namespace: "default"}, session.Running, 1},
		"closed a moment ago":  {time.Second, session.PruneOptions{Namespace: "default"}, session.Failed, 1},
		"begun a moment ago":   {time.Second, session.PruneOptions{Namespace: "default"}, session.Running, 0},
		"of another namespace": {time.Hour, session.PruneOptions{Namespace: "other"}, session.Running, 0},
		"Temporal runs it": {time.Hour, session.PruneOptions{
			Namespace: "default", Running: map[session.Key]time.Time{webSession: now},
		}, session.Running, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := newStore(t)
			closed(t, model, webSession)
			put(t, model, webSession, func(e *session.Execution) { e.Status.Status = c.status })
			dirs := workDirs(model)
			w, err := dirs.Make(webSession, id("backend"))
			require.NoError(t, err)
			s := later(t, model, c.age)
			c.options.WorkDirs = []session.PrunableDirs{dirs}
			require.Equal(t, c.gone, pruned(t, s, c.options).WorkDirs)
			if c.gone > 0 {
				require.NoDirExists(t, w.Tree)
			} else {
				require.DirExists(t, w.Tree)
			}
		})
	}
}
