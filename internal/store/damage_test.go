package store_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// busySession adds what chain leaves out: failed attempts with transcripts, an
// integrating round, and calls that were paid for.
func busySession(t testing.TB, s *store.Store, key session.Key) {
	t.Helper()
	names := chain(t, s, key)
	blob := func(data string) spec.Digest { return stored(t, s, []byte(data)) }
	c, err := s.Checkpoint(t.Context(), names[len(names)-1])
	require.NoError(t, err)
	blob("mended by " + key.Session)
	delta, err := s.Content.PutDelta(t.Context(), cas.Delta{"mended.txt": {Entry: file("mended by " + key.Session)}})
	require.NoError(t, err)
	last := &c.Assignments[len(c.Assignments)-1]
	last.Integrated = []session.Work{{Delta: delta}}
	c.Previous, c.CurrentPhase = names[len(names)-1], "deploy"
	_, err = s.PutCheckpoint(t.Context(), key, c)
	require.NoError(t, err)
	put(t, s, key, func(e *session.Execution) {
		e.Phases = []session.PhaseStatus{{Name: "deploy", Status: session.Running, Assignments: []session.AssignmentStatus{
			{Persona: "bob", AssignmentSummary: session.AssignmentSummary{Status: session.Running, Attempts: 1}},
		}}}
	})
	left := snapshot(t, s, map[string]string{"half.txt": "left by " + key.Session})
	require.NoError(t, s.PutRound(t.Context(), key, spec.AssignmentID{Phase: "deploy", Persona: "bob"}, session.RoundRecord{
		RoundLog: session.RoundLog{Attempts: []session.AttemptReport{{
			Attempt: 1, Failure: failures.Failure{Category: failures.Syntax, Message: "no"}, Log: blob("failed log of " + key.Session),
			Diff: blob("half of the log of " + key.Session), Files: left,
		}}},
	}, &session.Conversation{
		Preset: "claude", ID: "c1", Files: left,
		Home: snapshot(t, s, map[string]string{".claude/projects/-workspace/c1.jsonl": "conversation with the log of " + key.Session}),
	}))
	paid(t, s, key, spec.AssignmentID{Phase: "build", Persona: "ann"}, 2)
	paid(t, s, key, spec.AssignmentID{Phase: "deploy", Persona: "bob"}, 1)
}

// offsets lists where a file of this size is damaged: everywhere in a small one,
// at its ends and in between in a larger one.
func offsets(size, few int) []int {
	step := max(1, size/few)
	var out []int
	for at := range size {
		if at%step == 0 || at < 3 || at >= size-3 {
			out = append(out, at)
		}
	}
	return out
}

// TestNoDamageStaysHidden damages a store in one place after the other: each
// time the file is named, and moved away if it is there, and the chain of
// checkpoints can be read to its end all the same.
func TestNoDamageStaysHidden(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	busySession(t, s, webSession)
	chain(t, s, session.Key{Namespace: "default", Session: "web-2"})
	chain(t, s, session.Key{Namespace: "other", Session: "web-1"})
	few := 3
	if testing.Short() {
		few = 2
	}
	cases := 0
	for _, path := range kept(t, s) {
		full := filepath.Join(s.Dir(), path)
		sound := read(t, full)
		for _, at := range offsets(len(sound), few) {
			flipped := bytes.Clone(sound)
			flipped[at] ^= 1 << (at % 8)
			for what, damaged := range map[string][]byte{"flipped": flipped, "cut": sound[:at]} {
				require.NoError(t, os.WriteFile(full, damaged, 0o600))
				f := onlyFault(t, s, path, what, at)
				if cases++; strings.HasPrefix(path, "sessions/") {
					require.NotEmpty(t, f.Repaired, "%s %s at %d", path, what, at)
					repaired := read(t, full)
					if strings.Contains(path, "/checkpoint_") { // a status has later costs
						require.Equal(t, sound, repaired, "%s %s at %d", path, what, at)
					}
					continue
				}
				require.NotEmpty(t, f.MovedTo, "%s %s at %d", path, what, at)
				kept := read(t, filepath.Join(s.Dir(), f.MovedTo))
				require.Equal(t, damaged, kept, "the damaged file is kept for inspection")
			}
			require.NoError(t, os.RemoveAll(filepath.Join(s.Dir(), "damaged")))
		}
		require.NoError(t, os.WriteFile(full, sound, 0o600))
		require.NoError(t, os.Remove(full))
		require.Empty(t, onlyFault(t, s, path, "removed", 0).MovedTo)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o700))
		require.NoError(t, os.WriteFile(full, sound, 0o600))
		cases++
	}
	require.Empty(t, verified(t, s).Faults)
	t.Logf("%d damages", cases)
}

// onlyFault verifies the store and requires that the damaged file is what is
// wrong with it, and that no checkpoint is lost.
func onlyFault(t *testing.T, s *store.Store, path, what string, at int) cas.Fault {
	t.Helper()
	report, err := s.VerifyAll(t.Context())
	require.NoError(t, err, "%s %s at %d", path, what, at)
	require.Len(t, report.Faults, 1, "%s %s at %d: %v", path, what, at, report.Faults)
	require.Equal(t, path, report.Faults[0].Path, "%s at %d", what, at)
	list, _ := s.Checkpoints(t.Context(), webSession)
	require.Equal(t, []string{"deploy", "test", "build", "design", "init"}, phasesOf(list), "%s %s at %d", path, what, at)
	return report.Faults[0]
}

// kept lists the files of a store that a session needs.
func kept(t *testing.T, s *store.Store) []string {
	t.Helper()
	var out []string
	for _, top := range []string{"blobs", "sessions"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(s.Dir(), top), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				rel, err := filepath.Rel(s.Dir(), path)
				require.NoError(t, err)
				out = append(out, rel)
			}
			return err
		}))
	}
	return out
}

func TestASoundStoreHasNoFaults(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	chain(t, s, webSession)
	chain(t, s, session.Key{Namespace: "other", Session: "x"})
	report := verified(t, s)
	require.Empty(t, report.Faults)
	require.Equal(t, 2, report.Sessions)
	require.Equal(t, 8, report.Checkpoints)
	require.Equal(t, 6, report.Records)
	all := report.Blobs

	report, err := s.VerifySession(t.Context(), webSession)
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	require.Equal(t, 1, report.Sessions)
	require.Less(t, report.Blobs, all)
	require.Positive(t, report.Bytes)

	_, err = s.VerifySession(t.Context(), session.Key{Namespace: "default", Session: "unknown"})
	require.ErrorIs(t, err, session.ErrNotFound)
}

func TestStrayFilesAmongBlobsAreNamed(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	name := stored(t, s, []byte("x"))
	stray := filepath.Join(filepath.Dir(blobPath(s, name)), "notes.txt")
	require.NoError(t, os.WriteFile(stray, nil, 0o600))
	report := verified(t, s)
	require.Len(t, report.Faults, 1)
	require.Equal(t, stray, filepath.Join(s.Dir(), report.Faults[0].Path))
}

// TestACutOffAdmissionIsNoDamage: a session that was admitted and has reached no boundary has lost nothing.
func TestACutOffAdmissionIsNoDamage(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	paid(t, s, webSession, id("ann"), 1)
	require.Equal(t, 1, sound(t, s).Sessions)
	put(t, s, webSession, func(*session.Execution) {}) // a boundary without a checkpoint
	sound(t, s)
}

// TestAMirrorThatIsAheadIsKept: an older database was put in the place of a damaged one. The mirror has what it lacks.
func TestAMirrorThatIsAheadIsKept(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	names := chain(t, s, webSession)
	c, err := s.Checkpoint(t.Context(), names[3])
	require.NoError(t, err)
	c.Previous = names[3]
	for _, phase := range []string{"test", "deploy"} { // one that the database has, too, and one that it has not
		c.CurrentPhase = phase
		data, err := store.EncodeDigested(c)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(checkpointPath(s, phase), data, 0o600))
		for range 2 {
			report := verified(t, s)
			require.Contains(t, report.Faults[len(report.Faults)-1].What, "older backup")
			require.Empty(t, report.Faults[len(report.Faults)-1].Repaired)
			require.Equal(t, data, read(t, checkpointPath(s, phase)))
		}
	}
}
