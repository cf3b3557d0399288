package cas

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/storage"
)

// TestAnIndexKeepsItsManifest: loading an index marks its manifest as used, so that no prune
// removes it. An index without its manifest is not used.
func TestAnIndexKeepsItsManifest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files, err := storage.NewDirectory(dir, time.Now)
	require.NoError(t, err)
	s := New(files, Options{Clock: time.Now, StoreDir: dir, IndexDir: filepath.Join(dir, "index")})
	name, err := s.PutManifest(t.Context(), Manifest{})
	require.NoError(t, err)
	s.saveIndex("/somewhere", encodeIndex(name, 0, nil))
	path := filepath.Join(dir, filepath.FromSlash(storage.BlobKey(name)))
	old := time.Now().Add(-48 * time.Hour)
	require.NoError(t, os.Chtimes(path, old, old))

	require.NotNil(t, s.loadIndex("/somewhere", s.backend))
	info, err := files.StatBlob(name)
	require.NoError(t, err)
	require.True(t, info.Used.After(old.Add(24*time.Hour)), "a prune takes it for unused since %s", info.Used)

	require.NoError(t, os.Remove(path))
	require.Nil(t, s.loadIndex("/somewhere", s.backend))
}
