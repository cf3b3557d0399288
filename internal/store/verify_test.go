package store_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store"
)

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
