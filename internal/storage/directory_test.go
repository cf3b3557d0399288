package storage_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// TestAnUnfinishedLineIsCutOff: its writer has died, and nobody has relied on it.
func TestAnUnfinishedLineIsCutOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	require.NoError(t, s.Append("j", []byte("first")))
	path := filepath.Join(dir, "j")
	for i, torn := range []string{"s", "second", string(make([]byte, 10_000))} {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		next := fmt.Sprint("next ", i)
		require.NoError(t, os.WriteFile(path, slices.Concat(data, []byte(torn)), 0o600))
		require.NoError(t, s.Append("j", []byte(next)))
		again, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(data)+next+"\n", string(again))
	}
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
