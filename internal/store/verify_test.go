package store_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/team"
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
	chain(t, s, session)
	chain(t, s, team.SessionKey{Namespace: "other", Session: "x"})
	report, err := s.VerifyAll(t.Context())
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	require.Equal(t, 2, report.Sessions)
	require.Equal(t, 8, report.Checkpoints)
	require.Equal(t, 6, report.Records)
	all := report.Blobs

	report, err = s.VerifySession(t.Context(), session)
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	require.Equal(t, 1, report.Sessions)
	require.Less(t, report.Blobs, all)
	require.Positive(t, report.Bytes)

	_, err = s.VerifySession(t.Context(), team.SessionKey{Namespace: "default", Session: "unknown"})
	require.ErrorIs(t, err, team.ErrNotFound)
}

func TestEveryDamageIsFoundNamedAndQuarantined(t *testing.T) {
	t.Parallel()
	model := newStore(t)
	chain(t, model, session)
	journaled(t, model, session, id("ann"), 1)
	for _, path := range kept(t, model) {
		for what, damage := range map[string]func(t *testing.T, path string){
			"flipped": func(t *testing.T, path string) {
				data, err := os.ReadFile(path)
				require.NoError(t, err)
				data[0] ^= 1
				require.NoError(t, os.WriteFile(path, data, 0o600))
			},
			"cut": func(t *testing.T, path string) {
				info, err := os.Stat(path)
				require.NoError(t, err)
				require.NoError(t, os.Truncate(path, info.Size()-1))
			},
			"removed": func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		} {
			t.Run(filepath.Base(path)+" "+what, func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "store")
				require.NoError(t, os.CopyFS(dir, os.DirFS(model.Dir())))
				s, err := store.Open(dir, options())
				require.NoError(t, err)
				damage(t, filepath.Join(dir, path))

				report, err := s.VerifyAll(t.Context())
				require.NoError(t, err)
				require.Len(t, report.Faults, 1, "%v", report.Faults)
				fault := report.Faults[0]
				require.Equal(t, path, fault.Path)
				require.NotEmpty(t, fault.What)
				if what == "removed" {
					require.Empty(t, fault.Quarantined)
				} else {
					require.FileExists(t, filepath.Join(dir, fault.Quarantined))
				}
			})
		}
	}
}

func TestVerifyingASessionFindsWhatItNeeds(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	chain(t, s, session)
	artifact := sha([]byte("design"))
	require.NoError(t, os.Remove(blobPath(s, artifact)))
	report, err := s.VerifySession(t.Context(), session)
	require.NoError(t, err)
	require.Len(t, report.Faults, 1)
	require.Contains(t, report.Faults[0].What, "needed by")
	require.Contains(t, report.Faults[0].What, "web-1")
}

func TestStrayFilesAmongBlobsAreNamed(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	name, err := s.PutBlob(t.Context(), []byte("x"))
	require.NoError(t, err)
	stray := filepath.Join(filepath.Dir(blobPath(s, name)), "notes.txt")
	require.NoError(t, os.WriteFile(stray, nil, 0o600))
	report, err := s.VerifyAll(t.Context())
	require.NoError(t, err)
	require.Len(t, report.Faults, 1)
	require.Equal(t, stray, filepath.Join(s.Dir(), report.Faults[0].Path))
}
