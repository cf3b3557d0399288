package workdir_test

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/sandbox/workdir"
)

func random(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.Read(data)
	return data
}

func TestWhatAnAttemptHasWritten(t *testing.T) {
	t.Parallel()
	d := workdir.New(workdir.Options{Root: t.TempDir()})
	dir := made(t, d)
	written := func(since time.Time) session.Written {
		w, err := d.Written(t.Context(), dir, since)
		require.NoError(t, err)
		return w
	}
	const size = 1 << 20
	write(t, filepath.Join(dir.Tree, "before"), random(size))
	require.InDelta(t, size, written(time.Time{}).Bytes, 100_000)
	since := time.Now().Add(20 * time.Millisecond)
	require.Eventually(t, func() bool { // the clock of files ticks seldom
		probe := filepath.Join(t.TempDir(), "probe")
		write(t, probe, nil)
		info, err := os.Stat(probe)
		require.NoError(t, err)
		return info.ModTime().After(since)
	}, time.Minute, time.Millisecond)

	require.Zero(t, written(since).Bytes, "it was there before")
	sparse, err := os.Create(filepath.Join(dir.Tree, "sparse"))
	require.NoError(t, err)
	require.NoError(t, sparse.Truncate(1<<40))
	require.NoError(t, sparse.Close())
	require.Less(t, written(since).Bytes, int64(100_000), "holes take up no room")
	for _, name := range []string{"tree/node_modules", "home", "tmp", "beside"} {
		at := filepath.Join(filepath.Dir(dir.Tree), name)
		write(t, filepath.Join(at, "f"), random(size))
		require.NoError(t, os.Link(filepath.Join(at, "f"), filepath.Join(at, "g")))
	}
	require.InDelta(t, 4*size, written(since).Bytes, 200_000, "ignored files count, and names of one file once")
	require.False(t, written(since).Hidden)

	require.NoError(t, d.ClearTmp(dir))
	require.InDelta(t, 3*size, written(since).Bytes, 200_000)
	require.NoError(t, d.Clear(dir))
	require.Less(t, written(time.Time{}).Bytes, int64(100_000))
	for _, d := range []string{dir.Tree, dir.Home, dir.Tmp} {
		require.DirExists(t, d)
	}
}

// TestWhatCannotBeMeasured counts as hidden, except the directory of the kernel in that of an overlay.
func TestWhatCannotBeMeasured(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may read everything; make test-user runs this as another user")
	}
	d := workdir.New(workdir.Options{Root: t.TempDir()})
	dir := made(t, d)
	base := filepath.Dir(dir.Tree)
	hidden := func() bool {
		w, err := d.Written(t.Context(), dir, time.Time{})
		require.NoError(t, err)
		return w.Hidden
	}
	for _, overlay := range []string{"overlay", "check/overlay"} {
		require.NoError(t, os.MkdirAll(filepath.Join(base, overlay), 0o700))
		require.NoError(t, os.Mkdir(filepath.Join(base, overlay, "work"), 0))
	}
	require.False(t, hidden())
	closed := filepath.Join(dir.Home, "overlay/work")
	require.NoError(t, os.MkdirAll(closed, 0o700))
	require.NoError(t, os.Chmod(closed, 0))
	require.True(t, hidden())
	require.NoError(t, os.Chmod(closed, 0o700))
}

// TestSpaceThatIsFreedOnADiskThatIsNotFull blames the disk for nothing.
func TestSpaceThatIsFreedOnADiskThatIsNotFull(t *testing.T) {
	t.Parallel()
	d := workdir.New(workdir.Options{Root: t.TempDir(), Free: func(context.Context) bool { return true }})
	require.True(t, d.FreeDisk(t.Context()))
	disk, err := d.Disk()
	require.NoError(t, err)
	require.False(t, disk.IsFull())
	require.Zero(t, disk.Freed)
}
