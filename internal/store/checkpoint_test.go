package store_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/cas/castest"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

var phases = []string{"init", "design", "build", "test"}

// chain writes a session with a checkpoint after each phase, oldest first.
func chain(t testing.TB, s *store.Store, key session.Key) []spec.Digest {
	t.Helper()
	blob := func(data string) spec.Digest { return stored(t, s, []byte(data)) }
	put(t, s, key, func(e *session.Execution) { e.Team = "shop" })
	tree := cas.Manifest{}
	empty, err := s.Content.PutManifest(t.Context(), tree)
	require.NoError(t, err)
	c := session.Checkpoint{
		Run: 1, Team: session.Ref{Name: "web", Blob: blob(`{"name":"web"}`)}, Workspace: empty, Tree: empty,
		Decisions: map[string]string{}, Artifacts: []session.Artifact{}, Assignments: []session.CheckpointAssignment{},
	}
	var names []spec.Digest
	for i, phase := range phases {
		c.CurrentPhase, c.CreatedAt = phase, now.Add(time.Duration(i)*time.Minute)
		if i > 0 {
			done := spec.AssignmentID{Phase: phase, Persona: "ann"}
			blob(phase)
			d := cas.Delta{phase + ".txt": {Entry: file(phase)}}
			input := c.Tree
			tree = castest.Apply(tree, d)
			c.Tree, err = s.Content.PutManifest(t.Context(), tree)
			require.NoError(t, err)
			delta, err := s.Content.PutDelta(t.Context(), d)
			require.NoError(t, err)
			c.Assignments = append(c.Assignments, session.CheckpointAssignment{
				AssignmentID: done, AssignmentSummary: session.AssignmentSummary{
					Status: session.Completed, Rounds: 1, Attempts: 1,
					Failures: []session.AttemptFailure{},
				},
				Seconds: 1.5, BasedWork: session.BasedWork{Input: input, Work: session.Work{Delta: delta}},
			})
			c.Artifacts = append(c.Artifacts, session.Artifact{
				Path: phase + ".txt", SHA256: sha([]byte(phase)), Size: int64(len(phase)),
				AssignmentID: done,
			})
			slices.SortFunc(c.Artifacts, func(a, b session.Artifact) int { return strings.Compare(a.Path, b.Path) })
			require.NoError(t, s.PutRound(t.Context(), key, done, session.RoundRecord{
				Result: &session.RoundResult{
					BasedWork: session.BasedWork{Input: input, Work: session.Work{Delta: delta}}, Output: c.Tree,
					Log: blob("log of " + phase),
				},
			}, nil))
		}
		name, err := s.PutCheckpoint(t.Context(), key, c)
		require.NoError(t, err)
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

func TestTheLastGoodCheckpointIsUsed(t *testing.T) {
	t.Parallel()
	flip := func(t *testing.T, path string) {
		data := read(t, path)
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
		{"the newest blob, the mirror is good", func(t *testing.T, s *store.Store, names []spec.Digest) {
			flip(t, blobPath(s, names[3]))
		}, []string{"test", "build", "design", "init"}, []error{session.ErrCorrupt}},
		{"a missing blob, the mirror is good", func(t *testing.T, s *store.Store, names []spec.Digest) {
			remove(t, blobPath(s, names[2]))
		}, []string{"test", "build", "design", "init"}, []error{session.ErrNotFound}},
		{"the newest and its mirror", func(t *testing.T, s *store.Store, names []spec.Digest) {
			flip(t, blobPath(s, names[3]))
			flip(t, checkpointPath(s, "test"))
		}, []string{"build", "design", "init"}, []error{session.ErrCorrupt}},
		{"one in the middle and its mirror", func(t *testing.T, s *store.Store, names []spec.Digest) {
			remove(t, blobPath(s, names[2]))
			remove(t, checkpointPath(s, "build"))
		}, []string{"test", "design", "init"}, []error{session.ErrNotFound}},
		{"the whole mirror", func(t *testing.T, s *store.Store, _ []spec.Digest) {
			require.NoError(t, os.RemoveAll(filepath.Join(s.Dir(), "sessions")))
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
			newest, _ := s.Newest(t.Context(), webSession)
			require.Equal(t, list[0], newest)
			if c.faults != nil && len(list) == len(phases) {
				sound(t, s) // the blob was stored again
			}
		})
	}
}

// TestTheMirrorHasTheNewestCheckpoint: an executor that is late stores its checkpoint's blob and changes nothing else.
func TestTheMirrorHasTheNewestCheckpoint(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	path, err := s.CheckpointPath(webSession, "build")
	require.NoError(t, err)
	admitted := map[string]bool{}
	for _, step := range []struct {
		run       string
		minute    int
		installed bool
	}{{"r1", 5, true}, {"r1", 4, false}, {"r1", 6, true}, {"r2", 7, true}, {"r1", 9, false}, {"r2", 8, true}} {
		if !admitted[step.run] {
			_, err := s.State.Admit(t.Context(), state.Admission{Key: webSession, TemporalRun: step.run, OriginalRun: step.run})
			require.NoError(t, err)
			admitted[step.run] = true
		}
		at := now.Add(time.Duration(step.minute) * time.Minute)
		row, err := s.StoreCheckpoint(t.Context(), webSession, session.Checkpoint{
			CurrentPhase: "build", CreatedAt: at,
			Requirement: step.run,
		})
		require.NoError(t, err)
		_, late, err := s.State.PutBoundary(t.Context(), state.Boundary{
			Key: webSession, TemporalRun: step.run, FirstRun: step.run,
			At: at, Checkpoint: &row,
		})
		require.Equal(t, step.installed, !late && err == nil, "%+v", step)
		require.NoError(t, s.Mirror(t.Context(), webSession))
		require.Equal(t, step.installed, sha(read(t, path)) == row.Digest, "%+v", step)
	}
	left, err := os.ReadDir(filepath.Join(s.Dir(), "tmp"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestTheMirrorIsMadeUpFor: a process that ends between the commit and the mirror leaves the files to the next worker.
func TestTheMirrorIsMadeUpFor(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	names := chain(t, s, webSession)
	c, err := s.Checkpoint(t.Context(), names[3])
	require.NoError(t, err)
	c.Previous, c.CurrentPhase = names[3], "deploy"
	stopped, err := store.HoldMirror(s, webSession) // by another process, which has not written it yet
	require.NoError(t, err)
	head, err := s.PutCheckpoint(t.Context(), webSession, c)
	require.NoError(t, err)
	require.NoFileExists(t, checkpointPath(s, "deploy"))
	report := verified(t, s)
	require.Empty(t, report.Faults)
	require.Len(t, report.Notes, 1)
	require.Contains(t, report.Notes[0], "the mirror of session web-1 was not compared")
	stopped.Unlock()

	require.NoError(t, s.MirrorAll(t.Context()))
	require.Equal(t, head, sha(read(t, checkpointPath(s, "deploy"))))
	waiting, err := s.State.ToMirror(t.Context())
	require.NoError(t, err)
	require.Empty(t, waiting)
	require.Empty(t, sound(t, s).Notes)
	statetest.Put(t, s.State, webSession, func(e *session.Execution) { e.Reason = "a boundary without a checkpoint" })
	require.NoError(t, s.MirrorAll(t.Context()))
	waiting, err = s.State.ToMirror(t.Context())
	require.NoError(t, err)
	require.Empty(t, waiting)
}

// TestTheMirrorSaysWhatWorkHasCost as of the newest boundary. Later costs make no damage of it.
func TestTheMirrorSaysWhatWorkHasCost(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	chain(t, s, webSession)
	paid(t, s, webSession, id("ann"), 2)
	put(t, s, webSession, func(e *session.Execution) {
		e.Phases = []session.PhaseStatus{{Name: "build", Status: session.Running, Assignments: []session.AssignmentStatus{
			{Persona: "ann", AssignmentSummary: session.AssignmentSummary{Status: session.Running}},
		}}}
	})
	paid(t, s, webSession, id("ann"), 1)
	sound(t, s)
	data := read(t, filepath.Join(s.MirrorDir(webSession), "execution_state.json"))
	var e session.Execution
	require.NoError(t, json.Unmarshal(data, &e))
	require.EqualValues(t, 20, e.Usage.OutputTokens)
	require.EqualValues(t, 20, e.Phases[0].Assignments[0].Usage.OutputTokens)
}
