package store_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/cas/castest"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

var phases = []string{"init", "design", "build", "test"}

// chain writes a session with a checkpoint after each phase, oldest first.
func chain(t testing.TB, s *store.Store, key session.Key) []spec.Digest {
	t.Helper()
	put := func(data string) spec.Digest {
		name, err := s.Content.PutBlob(t.Context(), []byte(data))
		require.NoError(t, err)
		return name
	}
	tree := cas.Manifest{}
	empty, err := s.Content.PutManifest(t.Context(), tree)
	require.NoError(t, err)
	c := session.Checkpoint{
		Incarnation: 1, Team: session.Ref{Name: "web", Blob: put(`{"name":"web"}`)}, Workspace: empty, Tree: empty,
		Decisions: map[string]string{}, Artifacts: []session.Artifact{}, Assignments: []session.CheckpointAssignment{},
	}
	var names []spec.Digest
	for i, phase := range phases {
		c.CurrentPhase, c.CreatedAt = phase, now.Add(time.Duration(i)*time.Minute)
		if i > 0 {
			done := spec.AssignmentID{Phase: phase, Persona: "ann"}
			put(phase)
			d := cas.Delta{phase + ".txt": {Entry: file(phase)}}
			input := c.Tree
			tree = castest.Apply(tree, d)
			c.Tree, err = s.Content.PutManifest(t.Context(), tree)
			require.NoError(t, err)
			delta, err := s.Content.PutDelta(t.Context(), d)
			require.NoError(t, err)
			c.Assignments = append(c.Assignments, session.CheckpointAssignment{
				AssignmentID: done, AssignmentSummary: session.AssignmentSummary{Status: session.Completed, Rounds: 1, Attempts: 1, Failures: []session.AttemptFailure{}},
				Seconds: 1.5, BasedWork: session.BasedWork{Input: input, Work: session.Work{Delta: delta}},
			})
			c.Artifacts = append(c.Artifacts, session.Artifact{Path: phase + ".txt", SHA256: sha([]byte(phase)), Size: int64(len(phase)), AssignmentID: done})
			slices.SortFunc(c.Artifacts, func(a, b session.Artifact) int { return strings.Compare(a.Path, b.Path) })
			require.NoError(t, s.PutRecord(key, session.Record{Assignment: done, Incarnation: 1, Rounds: []session.RoundRecord{{
				Round: 1, RoundLog: session.RoundLog{Attempts: []session.AttemptReport{}},
				Result: &session.RoundResult{BasedWork: session.BasedWork{Input: input, Work: session.Work{Delta: delta}}, Output: c.Tree, Log: put("log of " + phase)},
			}}}))
		}
		name, err := s.PutCheckpoint(t.Context(), key, c)
		require.NoError(t, err)
		require.NoError(t, s.UpdateExecution(key, func(e *session.Execution) { e.Checkpoint, e.Reason = name, phase }))
		names = append(names, name)
		c.Previous = name
	}
	return names
}

func checkpointPath(s *store.Store, phase string) string {
	return filepath.Join(s.Dir(), "sessions", webSession.Namespace, webSession.Session, "checkpoint_"+phase+".json")
}

// phasesOf lists the phases of a session's checkpoints, newest first.
func phasesOf(list []store.StoredCheckpoint) []string {
	out := []string{}
	for _, c := range list {
		out = append(out, c.CurrentPhase)
	}
	return out
}

func TestTheChainIsWalked(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	names := chain(t, s, webSession)
	list, err := s.Checkpoints(t.Context(), webSession)
	require.NoError(t, err)
	require.Equal(t, []string{"test", "build", "design", "init"}, phasesOf(list))
	for i, c := range list {
		require.Equal(t, names[len(names)-1-i], c.Name)
		again, err := s.Checkpoint(t.Context(), c.Name)
		require.NoError(t, err)
		require.Equal(t, c.Checkpoint, again)
		copied, err := os.ReadFile(checkpointPath(s, c.CurrentPhase))
		require.NoError(t, err)
		require.Equal(t, c.Name, sha(copied), "the copy is the blob, byte for byte")
	}
	none, err := s.Checkpoints(t.Context(), session.Key{Namespace: "default", Session: "other"})
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestEveryByteOfACheckpointCounts(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	names := chain(t, s, webSession)
	reader := later(t, s, 0) // which has none in memory
	sound, err := os.ReadFile(blobPath(s, names[1]))
	require.NoError(t, err)
	everyDamage(sound, func(damaged []byte, what string, at int) {
		require.NoError(t, os.WriteFile(blobPath(s, names[1]), damaged, 0o600))
		_, err := reader.Checkpoint(t.Context(), names[1])
		require.ErrorIs(t, err, session.ErrCorrupt, "%s at %d", what, at)
		if at%16 > 0 {
			return
		}
		// What was written is known to be nothing else either: as a blob of
		// its own the damaged checkpoint has a good name, but no good content.
		other, err := s.Content.PutBlob(t.Context(), damaged)
		require.NoError(t, err)
		_, err = reader.Checkpoint(t.Context(), other)
		require.ErrorIs(t, err, session.ErrNotFound, "%s at %d", what, at)
	})
}

// TestARemovedCheckpointIsNotReadFromMemory, so that nobody builds on what was pruned.
func TestARemovedCheckpointIsNotReadFromMemory(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	name := chain(t, s, webSession)[1]
	_, err := s.Checkpoint(t.Context(), name)
	require.NoError(t, err)
	require.NoError(t, os.Remove(blobPath(s, name)))
	_, err = s.Checkpoint(t.Context(), name)
	require.ErrorIs(t, err, session.ErrNotFound)
}

func TestTheLastGoodCheckpointIsUsed(t *testing.T) {
	t.Parallel()
	flip := func(t *testing.T, path string) {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		data[len(data)/2] ^= 4
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
	remove := func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, s *store.Store, names []spec.Digest)
		want   []string
		faults []error
	}{
		{"the newest blob, its copy is good", func(t *testing.T, s *store.Store, names []spec.Digest) {
			flip(t, blobPath(s, names[3]))
		}, []string{"test", "build", "design", "init"}, []error{session.ErrCorrupt}},
		{"a missing blob, its copy is good", func(t *testing.T, s *store.Store, names []spec.Digest) {
			remove(t, blobPath(s, names[2]))
		}, []string{"test", "build", "design", "init"}, []error{session.ErrNotFound}},
		{"the newest and its copy", func(t *testing.T, s *store.Store, names []spec.Digest) {
			flip(t, blobPath(s, names[3]))
			flip(t, checkpointPath(s, "test"))
		}, []string{"build", "design", "init"}, []error{session.ErrCorrupt}},
		{"one in the middle and its copy", func(t *testing.T, s *store.Store, names []spec.Digest) {
			remove(t, blobPath(s, names[2]))
			remove(t, checkpointPath(s, "build"))
		}, []string{"test", "design", "init"}, []error{session.ErrNotFound}},
		{"a copy", func(t *testing.T, s *store.Store, _ []spec.Digest) {
			flip(t, checkpointPath(s, "build"))
		}, []string{"test", "build", "design", "init"}, []error{session.ErrCorrupt}},
		{"the state", func(t *testing.T, s *store.Store, _ []spec.Digest) {
			require.NoError(t, os.Truncate(filepath.Join(s.Dir(), "sessions/default/web-1/execution_state.json"), 9))
		}, []string{"test", "build", "design", "init"}, []error{session.ErrCorrupt}},
		{"no state", func(t *testing.T, s *store.Store, _ []spec.Digest) {
			remove(t, filepath.Join(s.Dir(), "sessions/default/web-1/execution_state.json"))
		}, []string{"test", "build", "design", "init"}, nil},
		{"a state that is behind", func(t *testing.T, s *store.Store, names []spec.Digest) {
			require.NoError(t, s.UpdateExecution(webSession, func(e *session.Execution) { e.Checkpoint = names[1] }))
		}, []string{"test", "build", "design", "init"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			c.damage(t, s, chain(t, s, webSession))
			list, err := s.Checkpoints(t.Context(), webSession)
			require.Equal(t, c.want, phasesOf(list))
			if c.faults == nil {
				require.NoError(t, err)
			}
			for _, f := range c.faults {
				require.ErrorIs(t, err, f)
			}
		})
	}
}

// TestACopyIsThatOfTheNewestCheckpoint: an executor that is late stores its checkpoint's
// blob and leaves the copy of a newer one alone, whichever came first.
func TestACopyIsThatOfTheNewestCheckpoint(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	path, err := s.CheckpointPath(webSession, "build")
	require.NoError(t, err)
	put := func(incarnation, minute int, requirement string) spec.Digest {
		name, err := s.PutCheckpoint(t.Context(), webSession, session.Checkpoint{
			CurrentPhase: "build", Incarnation: incarnation, CreatedAt: now.Add(time.Duration(minute) * time.Minute), Requirement: requirement,
		})
		require.NoError(t, err)
		_, err = s.Checkpoint(t.Context(), name)
		require.NoError(t, err)
		return name
	}
	for _, step := range []struct {
		incarnation, minute int
		installed           bool
	}{{1, 5, true}, {1, 4, false}, {1, 6, true}, {2, 1, true}, {1, 9, false}, {2, 1, true}} {
		name := put(step.incarnation, step.minute, "why")
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, step.installed, sha(data) == name, "%+v", step)
	}
	left, err := os.ReadDir(filepath.Join(s.Dir(), "tmp"))
	require.NoError(t, err)
	require.Empty(t, left)

	// Two executors of one boundary: the state reports whether the session is past it.
	require.NoError(t, s.UpdateExecution(webSession, func(e *session.Execution) {
		e.Incarnation, e.BoundaryAt = 2, now.Add(2*time.Minute)
	}))
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotEqual(t, sha(before), put(2, 1, "another"))
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}
