package storage_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
	"github.com/maestro-hive/maestro/internal/storage/storagetest"
)

func open(t testing.TB, dir string) storage.Storage {
	t.Helper()
	d, err := storage.NewDirectory(dir, time.Now)
	require.NoError(t, err)
	return d
}

func TestADirectoryIsAStorage(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) (storagetest.Opener, storagetest.Damage) {
		dir := t.TempDir()
		damage := func(t *testing.T, digest spec.Digest, content []byte) {
			path := filepath.Join(dir, filepath.FromSlash(storage.BlobKey(digest)))
			require.NoError(t, os.WriteFile(path, content, 0o600))
		}
		return func() storage.Storage { return open(t, dir) }, damage
	})
}

// TestAFailedWriteLeavesNothing: a write that is refused leaves no temporary file.
func TestAFailedWriteLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	_, err := s.Write("doc", []byte("1"), "", storage.Durable)
	require.NoError(t, err)
	_, err = s.Write("doc", []byte("2"), "", storage.Durable)
	require.ErrorIs(t, err, storage.ErrConflict)
	left, err := os.ReadDir(filepath.Join(dir, "tmp"))
	require.NoError(t, err)
	require.Empty(t, left)
}
