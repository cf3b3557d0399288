package store_test

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/platform/diskspace"
	"github.com/maestro-hive/maestro/internal/store"
)

// smallDisk makes a store on a file system of its own, of 64 MiB.
func smallDisk(t *testing.T) *store.Store {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("maestro-test", dir, "tmpfs", 0, "mode=0700,size=64m"); err != nil {
		t.Skipf("a file system cannot be mounted here: %s", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	s, err := store.Create(dir, store.Options{Clock: time.Now})
	require.NoError(t, err)
	return s
}

func random(t *testing.T, n int) []byte {
	t.Helper()
	data := make([]byte, n)
	_, _ = rand.Read(data)
	return data
}

// fillDisk writes a file until there is no room, and returns its path.
func fillDisk(t *testing.T, s *store.Store) string {
	t.Helper()
	path := filepath.Join(s.Dir(), "filler")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	return path
}

func TestTheReserveIsForWhatIsRecorded(t *testing.T) {
	t.Parallel()
	s := smallDisk(t)
	require.NoError(t, s.KeepReserve())
	require.NoError(t, s.KeepReserve())
	reserve := filepath.Join(s.Dir(), ".reserve")
	info, err := os.Stat(reserve)
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, info.Size())
	require.EqualValues(t, 1<<20, info.Sys().(*syscall.Stat_t).Blocks*512, "it takes up what it is to give back")

	base, dir := snapshot(t, s, nil), t.TempDir()
	filler := fillDisk(t, s)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), random(t, 5000), 0o600))
	_, err = s.Content.Collect(t.Context(), session.Collect{Base: base, Dir: dir})
	require.ErrorIs(t, err, syscall.ENOSPC, "a tree has no use of it")
	require.FileExists(t, reserve)
	stored(t, s, random(t, 1<<19))
	require.NoFileExists(t, reserve)
	require.NoError(t, s.KeepReserve())
	require.NoFileExists(t, reserve, "there is no room for it")

	require.NoError(t, os.Remove(filler))
	require.NoError(t, s.KeepReserve())
	require.FileExists(t, reserve)
	require.Empty(t, verified(t, s).Faults)
}

func TestNothingStaysOfACollectionThatTheDiskHasNoRoomFor(t *testing.T) {
	t.Parallel()
	s := smallDisk(t)
	base, dir := snapshot(t, s, nil), t.TempDir()
	shared := random(t, 1<<20)
	kept, err := s.Content.PutBlob(t.Context(), shared)
	require.NoError(t, err)
	before, err := diskspace.Of(s.Dir())
	require.NoError(t, err)
	for name, data := range map[string][]byte{
		"small": random(t, 1000), "large": random(t, 16<<20), "larger": random(t, 32<<20), "largest": random(t, 32<<20),
		"stored": shared,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	_, err = s.Content.Collect(t.Context(), session.Collect{Base: base, Dir: dir})
	require.ErrorIs(t, err, syscall.ENOSPC)
	after, err := diskspace.Of(s.Dir())
	require.NoError(t, err)
	require.InDelta(t, before.Bytes, after.Bytes, 100_000)
	data, err := s.Content.Blob(t.Context(), kept)
	require.NoError(t, err, "what was there stays")
	require.True(t, bytes.Equal(shared, data))

	require.NoError(t, os.Remove(filepath.Join(dir, "largest")))
	require.NoError(t, os.Remove(filepath.Join(dir, "large")))
	_, err = s.Content.Collect(t.Context(), session.Collect{Base: base, Dir: dir})
	require.NoError(t, err)
}

// TestWhatIsNamedIsDurableFirst: after a power loss, no document or blob that is
// there names a blob that is not.
func TestWhatIsNamedIsDurableFirst(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	order := store.RecordDurability(s)
	busySession(t, s, webSession)
	require.Empty(t, order.Wrong)
	require.Positive(t, order.Named, "something names blobs")

	name := stored(t, s, []byte("late"))
	order.Forget(name)
	stored(t, s, []byte("names "+name))
	require.Len(t, order.Wrong, 1, "it is noticed")
}
