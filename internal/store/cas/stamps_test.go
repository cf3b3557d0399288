package cas

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store/storage"
)

// TestStampsKeepTheirManifest: loading stamps marks their manifest as used, so that no prune
// removes it. Without it they are not used.
func TestStampsKeepTheirManifest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files, err := storage.NewDirectory(dir, time.Now)
	require.NoError(t, err)
	s := New(files, Options{StoreDir: dir, StampsDir: filepath.Join(dir, "stamps")})
	name, err := s.PutManifest(t.Context(), Manifest{})
	require.NoError(t, err)
	known := stamps{name, map[string]stamped{"a/b": {name, stamp{1, 2, 3, 4, 5}}}}
	s.saveStamps("/somewhere", known)
	path := filepath.Join(dir, filepath.FromSlash(storage.BlobKey(name)))
	old := time.Now().Add(-48 * time.Hour)
	require.NoError(t, os.Chtimes(path, old, old))

	require.Equal(t, known, s.loadStamps("/somewhere"))
	info, err := files.StatBlob(name)
	require.NoError(t, err)
	require.True(t, info.Used.After(old.Add(24*time.Hour)), "a prune takes it for unused since %s", info.Used)

	require.NoError(t, os.Remove(path))
	require.Zero(t, s.loadStamps("/somewhere"))
}
