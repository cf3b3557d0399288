package room

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestOwnersChangeInTheDirectoryOnly changes owners in a directory while an agent exchanges a directory in it for a link to
// files of the host.
func TestOwnersChangeInTheDirectoryOnly(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can change owners")
	}
	host, home := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(home, "dir"), 0o700))
	for i := range 300 {
		name := strconv.Itoa(i)
		require.NoError(t, errors.Join(os.WriteFile(filepath.Join(host, name), nil, 0o600),
			os.WriteFile(filepath.Join(home, "dir", name), nil, 0o600)))
	}
	dir, link := filepath.Join(home, "dir"), filepath.Join(home, "link")
	require.NoError(t, os.Symlink(host, link))
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
				err = unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
			}
		}
		stopped <- err
	}()
	agent := &Account{Name: "agent", UID: 64100, GID: 64100}
	for range 200 {
		require.NoError(t, agent.Chown(home))
	}
	close(stop)
	require.NoError(t, <-stopped)
	require.NoError(t, filepath.WalkDir(host, func(path string, e fs.DirEntry, err error) error {
		if err == nil {
			require.Zero(t, ownerOf(t, e), path)
		}
		return err
	}))
	require.NoError(t, agent.Chown(home))
	require.NoError(t, filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
		if err == nil {
			require.Equal(t, agent.UID, ownerOf(t, e), path)
		}
		return err
	}))
}

func ownerOf(t *testing.T, e fs.DirEntry) uint32 {
	t.Helper()
	info, err := e.Info()
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Uid //nolint:forcetypeassert // on Linux
}

// TestOwnersInADeepDirectory: an agent can make directories whose path nobody can use.
func TestOwnersInADeepDirectory(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can change owners")
	}
	home := t.TempDir()
	at, err := os.OpenRoot(home)
	require.NoError(t, err)
	for range 3000 {
		require.NoError(t, at.Mkdir("d", 0o700))
		below, err := at.OpenRoot("d")
		require.NoError(t, errors.Join(err, at.Close()))
		at = below
	}
	require.NoError(t, at.Close())
	require.NoError(t, (&Account{UID: 64100, GID: 64100}).Chown(home))
}

func TestOnlyTheShimOfThisBuildIsUsed(t *testing.T) {
	t.Parallel()
	for prints, want := range map[string]string{
		"echo '" + Build() + "'": "",
		"echo go1.0 old":         `is of build "go1.0 old", this program of "` + Build() + `"`,
		"exit 1":                 "exit status 1",
	} {
		path := filepath.Join(t.TempDir(), ProgramName)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+prints+"\n"), 0o755))
		if err := tryProgram(path); want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
	require.ErrorContains(t, tryProgram("/nowhere/"+ProgramName), "/nowhere/maestro-shim: no such file")
}

func TestIDsThatAUserNamespaceMaps(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "uid_map")
	require.True(t, mapped(file, 64100), "it is not known")
	for ids, want := range map[string]bool{
		"         0          0 4294967295\n": true, "0 1000 1\n": false, "0 1000 1\n1 100000 65536\n": true, "0 100000 64100\n": false,
		"64100 1 1\n": true,
	} {
		require.NoError(t, os.WriteFile(file, []byte(ids), 0o600))
		require.Equal(t, want, mapped(file, 64100), ids)
	}
}

func TestALackOfMemoryForbidsNoRooms(t *testing.T) {
	t.Parallel()
	for _, e := range []error{unix.EPERM, unix.EINVAL, unix.ENOSYS} {
		require.True(t, Forbids(fmt.Errorf("make a room: %w", e)))
	}
	for _, e := range []error{unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.EIO, context.DeadlineExceeded} {
		require.False(t, Forbids(fmt.Errorf("make a room: %w", e)))
	}
}
