package store_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/storage"
	"github.com/maestro-hive/maestro/internal/store"
)

// manyFiles are so many that they are stored together.
func manyFiles(of string) map[string]string {
	files := map[string]string{}
	for i := range 400 {
		files[fmt.Sprintf("d%d/f%03d", i/100, i)] = fmt.Sprintf("%01000d of %s", i, of)
	}
	return files
}

// packedBytes is the size of the contents that are stored together.
func packedBytes(t *testing.T, s *store.Store) (size int64) {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(s.Dir(), "blobs/packs/*/data"))
	require.NoError(t, err)
	for _, path := range packs {
		info, err := os.Stat(path)
		require.NoError(t, err)
		size += info.Size()
	}
	return size
}

// TestFilesThatAreStoredTogether are verified, repaired, exported, imported and pruned as others.
func TestFilesThatAreStoredTogether(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	tree := snapshot(t, s, manyFiles("it"))
	require.Greater(t, packedBytes(t, s), int64(400_000))
	team, err := s.Content.PutBlob(t.Context(), []byte(`{"name":"web"}`))
	require.NoError(t, err)
	head, err := s.PutCheckpoint(t.Context(), webSession, session.Checkpoint{
		Incarnation: 1, CurrentPhase: "init", CreatedAt: now, Team: session.Ref{Name: "web", Blob: team}, Workspace: tree, Tree: tree,
		Decisions: map[string]string{}, Artifacts: []session.Artifact{}, Assignments: []session.CheckpointAssignment{},
	})
	require.NoError(t, err)
	require.NoError(t, s.UpdateExecution(webSession, func(e *session.Execution) {
		started := now
		e.Checkpoint, e.Status.Status, e.StartedAt, e.ClosedAt = head, session.Completed, &started, &started
	}))
	sound(t, s)

	other := newStore(t)
	_, err = other.ImportSession(t.Context(), bytes.NewReader(archive(t, s, webSession, true)), "default", "")
	require.NoError(t, err)
	sound(t, other)
	require.Greater(t, packedBytes(t, other), int64(400_000))
	dir := filepath.Join(t.TempDir(), "tree")
	require.NoError(t, other.Content.Materialise(t.Context(), tree, dir))
	for path, content := range manyFiles("it") {
		data, err := os.ReadFile(filepath.Join(dir, path))
		require.NoError(t, err)
		require.Equal(t, content, string(data))
	}

	content := []byte(manyFiles("it")["d2/f222"])
	packs, err := filepath.Glob(filepath.Join(s.Dir(), "blobs/packs/*/data"))
	require.NoError(t, err)
	data, err := os.ReadFile(packs[0])
	require.NoError(t, err)
	data[bytes.Index(data, content)] ^= 1
	require.NoError(t, os.WriteFile(packs[0], data, 0o600))
	report, err := s.VerifyAll(t.Context())
	require.NoError(t, err)
	require.Len(t, report.Faults, 1)
	require.Equal(t, storage.BlobKey(cas.DigestOf(content)), report.Faults[0].Path)
	require.FileExists(t, filepath.Join(s.Dir(), report.Faults[0].Quarantined))
	require.Equal(t, tree, snapshot(t, s, manyFiles("it")))
	require.Equal(t, 1, sound(t, s).Checkpoints, "what is put again repairs it")

	before := packedBytes(t, s)
	snapshot(t, s, manyFiles("what nobody needs"))
	pruned, err := later(t, s, tenDays).Prune(t.Context(), session.PruneOptions{})
	require.NoError(t, err)
	require.GreaterOrEqual(t, pruned.Blobs, 400)
	require.LessOrEqual(t, packedBytes(t, s), before, "what it says that it frees is free")
	sound(t, s)
}
