package store_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/index"
	"github.com/maestro-hive/maestro/internal/storage"
	"github.com/maestro-hive/maestro/internal/store"
)

func TestRootDoesNotWriteIntoTheStoreOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a store to another user")
	}
	s := newStore(t)
	_, err := store.Open(s.Dir(), options())
	require.NoError(t, err, "its own")
	for _, path := range []string{s.Dir(), filepath.Join(s.Dir(), "store.json")} {
		require.NoError(t, os.Chown(path, 65534, 65534))
		for _, open := range []func(string, store.Options) (*store.Store, error){store.Open, store.Create} {
			_, err = open(s.Dir(), options())
			var owner *storage.OwnerError
			require.ErrorAs(t, err, &owner)
			require.Equal(t, 65534, owner.UID)
			require.ErrorContains(t, err, "sudo -u nobody maestro")
			require.ErrorContains(t, err, "runuser -u nobody")
		}
		reading := options()
		reading.Reading = true
		other, err := store.Open(s.Dir(), reading)
		require.NoError(t, err, "reading leaves nothing behind")
		require.True(t, other.Foreign())
		require.NoError(t, os.Chown(path, 0, 0))
	}
}

// A user can turn each directory of the store into a link, and damage each file so that a reader
// would repair it.
func TestRootThatReadsTheStoreOfAnotherUserWritesNowhere(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a store to another user")
	}
	top := t.TempDir()
	s, err := store.Create(filepath.Join(top, "store"), options())
	require.NoError(t, err)
	chain(t, s, webSession)
	paid(t, s, webSession, id("ann"), 1)
	for i, path := range kept(t, s) {
		if path = filepath.Join(s.Dir(), path); i%2 == 0 {
			require.NoError(t, os.WriteFile(path, []byte("{}"), 0o600))
		}
	}
	for _, name := range []string{"index", "tmp", "quarantine", "locks", "breakers"} {
		outside := filepath.Join(top, "of-root", name)
		require.NoError(t, os.MkdirAll(outside, 0o700))
		file := filepath.Join(outside, "old")
		require.NoError(t, os.WriteFile(file, []byte(name), 0o600))
		require.NoError(t, os.Chtimes(file, now.Add(-1000*time.Hour), now.Add(-1000*time.Hour)))
		require.NoError(t, os.RemoveAll(filepath.Join(s.Dir(), name)))
		require.NoError(t, os.Symlink(outside, filepath.Join(s.Dir(), name)))
	}
	require.NoError(t, os.Lchown(s.Dir(), 65534, 65534))
	before := stamps(t, top)

	reading := options()
	reading.Reading = true
	s, err = store.Open(s.Dir(), reading)
	require.NoError(t, err)
	report, err := s.VerifyAll(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, report.Faults)
	_, err = s.VerifySession(t.Context(), webSession)
	require.NoError(t, err)
	_, err = s.Checkpoints(t.Context(), webSession)
	require.Error(t, err)
	_, err = s.Clock()
	require.ErrorContains(t, err, "belongs to user nobody")
	require.Error(t, s.KeepReserve())
	_, err = s.Content.PutBlob(t.Context(), []byte("new"))
	require.Error(t, err)
	x, err := index.Open(t.Context(), s, index.Options{})
	require.NoError(t, err)
	defer x.Close()
	_, _ = x.Refresh(t.Context(), webSession.Namespace)
	require.ErrorContains(t, x.InMemory(), "another user")
	require.Equal(t, before, stamps(t, top))
}

// stamps describes all files below a directory.
func stamps(t *testing.T, top string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil {
			out[path] = fmt.Sprint(info.Mode(), info.Size(), info.ModTime().UnixNano(), info.Sys().(*syscall.Stat_t).Uid)
		}
		return err
	}))
	return out
}
