package caches_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/platform/diskspace"
	"github.com/maestro-hive/maestro/internal/sandbox/caches"
)

// size is how large the files of a cache are.
const size = 64 << 10

// fill writes n files into a cache.
func fill(t *testing.T, cache string, n int) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(cache, "dir"), 0o700))
	for i := range n {
		path := filepath.Join(cache, "dir", fmt.Sprint(i))
		require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o600))
	}
}

// kept lists the files of a cache.
func kept(t *testing.T, cache string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(cache, "dir"))
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func newCaches(root string, most diskspace.Used, clock func() time.Time) *caches.Caches {
	return caches.New(caches.Options{Root: root, Max: most, Clock: clock, Logger: slog.New(slog.DiscardHandler)})
}

func TestACacheThatIsTooLargeLosesWhatWasNotUsedLast(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	fill(t, filepath.Join(root, "small"), 3)
	fill(t, filepath.Join(root, "large"), 4)
	c := newCaches(root, diskspace.Used{Bytes: 6*size + size/2, Files: 100}, time.Now)
	c.Trim(t.Context())
	require.Len(t, kept(t, filepath.Join(root, "large")), 4, "it is not too large")

	// Four files that are hours old, and three new ones.
	later := func() time.Time { return time.Now().Add(5 * time.Hour) }
	c = newCaches(root, diskspace.Used{Bytes: 6*size + size/2, Files: 100}, later)
	for i := range 3 {
		path := filepath.Join(root, "large/dir", fmt.Sprintf("new%d", i))
		require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o600))
		require.NoError(t, os.Chtimes(path, later(), later()))
	}
	c.Trim(t.Context())
	require.Equal(t, []string{"new0", "new1", "new2"}, kept(t, filepath.Join(root, "large")))
	require.Len(t, kept(t, filepath.Join(root, "small")), 3)
}

// TestWhatIsTooDeepToMeasureIsRemoved, and nothing else.
func TestWhatIsTooDeepToMeasureIsRemoved(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	fill(t, filepath.Join(root, "deep"), 2)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "deep", strings.Repeat("d/", 200)), 0o700))
	newCaches(root, diskspace.Used{Bytes: 1 << 40, Files: 1 << 20}, time.Now).Trim(t.Context())
	require.Len(t, kept(t, filepath.Join(root, "deep")), 2)
	require.NoDirExists(t, filepath.Join(root, "deep", strings.Repeat("d/", 150)))
	require.DirExists(t, filepath.Join(root, "deep", strings.Repeat("d/", 100)))
}

func TestAFullDiskTakesHalfOfEachCache(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	fill(t, filepath.Join(root, "one"), 4)
	now := time.Now().Add(5 * time.Hour)
	for _, name := range []string{"0", "1"} {
		require.NoError(t, os.Chtimes(filepath.Join(root, "one/dir", name), now, now))
	}
	fit := 4 // how many files fit on the disk
	c := caches.New(caches.Options{
		Root: root, Max: diskspace.Used{Bytes: 1 << 40, Files: 1 << 20}, Logger: slog.New(slog.DiscardHandler),
		Clock: func() time.Time { return now },
		Left: func(string) (diskspace.Left, error) {
			files, _ := os.ReadDir(filepath.Join(root, "one/dir"))
			return diskspace.Left{Files: int64(fit - len(files))}, nil
		},
	})
	require.False(t, c.Free(t.Context()), "their disk is not full")
	require.Len(t, kept(t, filepath.Join(root, "one")), 4)
	fit = 2
	require.True(t, c.Free(t.Context()))
	require.Equal(t, []string{"0", "1"}, kept(t, filepath.Join(root, "one")))
	fit = 0
	require.True(t, c.Free(t.Context()))
	require.NoDirExists(t, filepath.Join(root, "one/dir"))
	require.False(t, newCaches(filepath.Join(root, "absent"), diskspace.Used{}, time.Now).Free(t.Context()))
}

// TestADirectoryThatMayNotBeWrittenIsKeptOrRemovedAsAWhole, like a module of Go.
func TestADirectoryThatMayNotBeWrittenIsKeptOrRemovedAsAWhole(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	later := func() time.Time { return time.Now().Add(5 * time.Hour) }
	for i, name := range []string{"old@v1", "used@v1", "new@v1"} {
		module := filepath.Join(root, "mod/example.org", name)
		for n := range 20 * (1 - min(i, 1)) {
			require.NoError(t, os.MkdirAll(filepath.Join(module, fmt.Sprint(n)), 0o700))
		}
		for _, path := range []string{"a.go", "sub/b.go", "sub/below/c.go"} {
			path = filepath.Join(module, path)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o400))
			if i == 2 || i == 1 && strings.HasSuffix(path, "b.go") {
				require.NoError(t, os.Chtimes(path, later(), later()))
			}
		}
		for _, dir := range []string{"sub/below", "sub", "."} {
			require.NoError(t, os.Chmod(filepath.Join(module, dir), 0o500))
			t.Cleanup(func() { _ = os.Chmod(filepath.Join(module, dir), 0o700) })
		}
	}
	modules := func() (names []string) {
		entries, err := os.ReadDir(filepath.Join(root, "mod/example.org"))
		require.NoError(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
			require.FileExists(t, filepath.Join(root, "mod/example.org", e.Name(), "a.go"))
			require.FileExists(t, filepath.Join(root, "mod/example.org", e.Name(), "sub/below/c.go"))
		}
		return names
	}
	newCaches(root, diskspace.Used{Bytes: 1 << 40, Files: 1 << 20}, later).Trim(t.Context())
	require.Len(t, modules(), 3)
	require.NoError(t, os.Chmod(filepath.Join(root, "mod"), 0o500))
	newCaches(root, diskspace.Used{Bytes: 1 << 40, Files: 30}, later).Trim(t.Context())
	require.Equal(t, []string{"new@v1", "used@v1"}, modules(), "one of its files was used")
	newCaches(root, diskspace.Used{Bytes: 1 << 40, Files: 9}, later).Trim(t.Context())
	require.NoDirExists(t, filepath.Join(root, "mod/example.org"))
}

// TestBasesThatNobodyUsesAreRemoved, wherever the caches are.
func TestBasesThatNobodyUsesAreRemoved(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "state[1]", "caches") // a path is no pattern
	require.NoError(t, os.MkdirAll(root, 0o700))
	base := caches.NewBase(root, "default.web", "go", diskspace.Used{})
	held, err := base.Hold(true)
	require.NoError(t, err)
	written := filepath.Join(root, "written")
	fill(t, written, 1)
	require.NoError(t, base.Add(t.Context(), held, written, "check", "input", time.Now()))
	require.False(t, caches.FreeBases(root), "it is in use")
	held.Release()
	require.True(t, caches.FreeBases(root))
	require.False(t, caches.FreeBases(root))
}
