package store_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
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
	report, err := s.VerifyAll(t.Context())
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	require.Equal(t, 2, report.Sessions)
	require.Equal(t, 8, report.Checkpoints)
	require.Equal(t, 6, report.Records)
	all := report.Blobs

	report, err = s.VerifySession(t.Context(), webSession)
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	require.Equal(t, 1, report.Sessions)
	require.Less(t, report.Blobs, all)
	require.Positive(t, report.Bytes)

	_, err = s.VerifySession(t.Context(), session.Key{Namespace: "default", Session: "unknown"})
	require.ErrorIs(t, err, session.ErrNotFound)
}

func TestEveryDamageIsFoundNamedAndQuarantined(t *testing.T) {
	t.Parallel()
	model := newStore(t)
	chain(t, model, webSession)
	paid(t, model, webSession, id("ann"), 1)
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
	chain(t, s, webSession)
	artifact := sha([]byte("design"))
	require.NoError(t, os.Remove(blobPath(s, artifact)))
	report, err := s.VerifySession(t.Context(), webSession)
	require.NoError(t, err)
	require.Len(t, report.Faults, 1)
	require.Contains(t, report.Faults[0].What, "needed by")
	require.Contains(t, report.Faults[0].What, "web-1")
}

func TestStrayFilesAmongBlobsAreNamed(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	name, err := s.Content.PutBlob(t.Context(), []byte("x"))
	require.NoError(t, err)
	stray := filepath.Join(filepath.Dir(blobPath(s, name)), "notes.txt")
	require.NoError(t, os.WriteFile(stray, nil, 0o600))
	report, err := s.VerifyAll(t.Context())
	require.NoError(t, err)
	require.Len(t, report.Faults, 1)
	require.Equal(t, stray, filepath.Join(s.Dir(), report.Faults[0].Path))
}

// TestVerifyRepairsWhatHasASecondCopy: a checkpoint's copy is written again from its
// blob, and the blob from the copy; the next verification finds nothing.
func TestVerifyRepairsWhatHasASecondCopy(t *testing.T) {
	t.Parallel()
	for what, damage := range map[string]func(path string) error{
		"flipped": func(path string) error { return os.WriteFile(path, []byte("{}"), 0o600) },
		"removed": os.Remove,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			names := chain(t, s, webSession)
			sound, err := s.CheckpointPath(webSession, phases[1])
			require.NoError(t, err)
			for _, path := range []string{sound, blobPath(s, names[2])} {
				before, err := os.ReadFile(path)
				require.NoError(t, err)
				require.NoError(t, damage(path))
				report, err := s.VerifyAll(t.Context())
				require.NoError(t, err)
				require.Len(t, report.Faults, 1)
				require.NotEmpty(t, report.Faults[0].Repaired, report.Faults[0].Error())
				after, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, before, after)
				report, err = s.VerifyAll(t.Context())
				require.NoError(t, err)
				require.Empty(t, report.Faults)
			}
		})
	}
}

// TestVerifyReplacesACopyThatIsNotOfTheChain: nothing is damaged, so nothing is a fault.
// TestACutOffAdmissionIsNoDamage: a session whose first checkpoint is all that was
// written has lost nothing; one that has worked has lost its state.
func TestACutOffAdmissionIsNoDamage(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	empty, err := s.Content.PutManifest(t.Context(), cas.Manifest{})
	require.NoError(t, err)
	blob, err := s.Content.PutBlob(t.Context(), []byte(`{}`))
	require.NoError(t, err)
	_, err = s.PutCheckpoint(t.Context(), webSession, session.Checkpoint{
		CurrentPhase: spec.ReservedPhase, Incarnation: 1, Team: session.Ref{Blob: blob}, Workspace: empty, Tree: empty, CreatedAt: now,
	})
	require.NoError(t, err)
	report, err := s.VerifyAll(t.Context())
	require.NoError(t, err)
	require.Empty(t, report.Faults)

	require.NoError(t, s.PutRecord(webSession, session.Record{Assignment: id("ann"), Incarnation: 1}))
	report, err = s.VerifyAll(t.Context())
	require.NoError(t, err)
	require.Len(t, report.Faults, 1)
	require.Contains(t, report.Faults[0].What, "no such state")
}

func TestVerifyReplacesACopyThatIsNotOfTheChain(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	names := chain(t, s, webSession)
	path, err := s.CheckpointPath(webSession, phases[1])
	require.NoError(t, err)
	chained, err := os.ReadFile(path)
	require.NoError(t, err)
	c, err := s.Checkpoint(t.Context(), names[1])
	require.NoError(t, err)
	c.Requirement = "by another executor"
	name, err := s.PutCheckpoint(t.Context(), webSession, c)
	require.NoError(t, err)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, name, sha(data))

	report, err := s.VerifyAll(t.Context())
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	require.Len(t, report.Replaced, 1)
	data, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, chained, data)
}
