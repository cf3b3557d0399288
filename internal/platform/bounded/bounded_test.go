package bounded_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/platform/bounded"
)

func TestAFileIsReadUpToItsLimit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, make([]byte, 2048), 0o600))
	data, err := bounded.ReadFile(path, 2048)
	require.NoError(t, err)
	require.Len(t, data, 2048)
	for _, large := range []string{path, "/dev/zero"} {
		_, err = bounded.ReadFile(large, 2047)
		require.EqualError(t, err, large+" is larger than 1 KiB, which is the most that is read")
	}
	_, err = bounded.ReadFile(path+".absent", 1)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestRemoveADeepTreeWithFewFiles removes a tree that is deeper than files may be open, with
// directories that nobody may read.
func TestRemoveADeepTreeWithFewFiles(t *testing.T) { //nolint:paralleltest // it changes the process's limit
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	t.Cleanup(func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)) })
	few := limit
	few.Cur = 256

	base := t.TempDir()
	root, err := os.OpenRoot(base)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(base, "a", "b"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(base, "a", "b", "f"), nil, 0o400))
	require.NoError(t, os.Symlink("/nowhere", filepath.Join(base, "a", "l")))
	at, err := root.OpenRoot("a")
	require.NoError(t, err)
	for i := range 1500 {
		require.NoError(t, at.Mkdir("d", 0o700))
		next, err := at.OpenRoot("d")
		require.NoError(t, err)
		if i%10 == 0 {
			require.NoError(t, at.Chmod("d", 0o000))
		}
		require.NoError(t, at.Close())
		at = next
	}
	require.NoError(t, at.Close())
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	require.NoError(t, bounded.RemoveAll(root, "a"))
	require.NoError(t, bounded.RemoveAll(root, "a"), "it is gone")
	left, err := os.ReadDir(base)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Error(t, bounded.RemoveAll(root, "../elsewhere"))
}

// TestOldDirectoriesAreRemoved by the beginnings of their names.
func TestOldDirectoriesAreRemoved(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	for name, age := range map[string]time.Duration{".try-old": 2 * time.Hour, ".try-new": time.Minute, "other": 2 * time.Hour} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Join(path, "below"), 0o700))
		require.NoError(t, os.Chtimes(path, now.Add(-age), now.Add(-age)))
	}
	bounded.RemoveOld(dir, ".try-", now.Add(-time.Hour))
	bounded.RemoveOld(filepath.Join(dir, "absent"), ".try-", now)
	require.NoDirExists(t, filepath.Join(dir, ".try-old"))
	require.DirExists(t, filepath.Join(dir, ".try-new"))
	require.DirExists(t, filepath.Join(dir, "other"))
}

func TestEverythingBelowADirectoryIsVisited(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "other"), nil, 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a/b/c/d"), 0o700))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	for i := range 2000 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a", strconv.Itoa(i)), nil, 0o600))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, root.Close()) }()
	var names []string
	hiding := ""
	hidden, err := bounded.Walk(t.Context(), root, 4, func(e bounded.Entry) {
		names = append(names, e.Info.Name())
		if e.Hidden {
			hiding += e.Info.Name()
		}
		if !e.Info.IsDir() {
			require.NoError(t, e.Dir.Remove(e.Info.Name()))
		}
	})
	require.NoError(t, err)
	require.False(t, hidden)
	require.Len(t, names, 2000+len("abcd")+len([]string{"link"}))
	require.True(t, strings.HasSuffix(strings.Join(names, " "), "d c b a"), "a directory follows its content")
	require.Equal(t, "d", hiding, "it is too deep")
	require.FileExists(t, filepath.Join(outside, "other"))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = bounded.Walk(ctx, root, 4, func(bounded.Entry) { t.Error("visited after the end") })
	require.ErrorIs(t, err, context.Canceled)
}
