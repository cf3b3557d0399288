package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// openLock opens the file of a lock. It makes the file and its directory if they do not exist.
func (d *Directory) openLock(mode int, key string) (*os.File, error) {
	path := filepath.Join(d.root, "locks", filepath.FromSlash(key))
	mode |= os.O_CREATE | unix.O_NONBLOCK // as in createFile
	f, err := os.OpenFile(path, mode, fileMode)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
			return nil, fmt.Errorf("create the directory of a lock: %w", err)
		}
		f, err = os.OpenFile(path, mode, fileMode)
	}
	return f, err
}

// Hold is a lock that is held for the duration of some work.
type Hold struct{ *os.File }

// Unlock releases the lock, also for processes that have inherited it: closing the file would not do that.
func (l *Hold) Unlock() {
	_ = unix.Flock(int(l.Fd()), unix.LOCK_UN)
	_ = l.Close()
}

// Lease is nil: the lock says nothing to other hosts.
func (l *Hold) Lease() *session.Lease { return nil }

// Hold takes a lock; ok is false if it is held already. The lock ends when it is unlocked, or when the process and all processes
// that have inherited the descriptor have ended. Its file is not removed: locks of a removed file and of a new one would not
// exclude each other.
func (d *Directory) Hold(key string) (held *Hold, ok bool, err error) {
	f, err := d.openLock(os.O_RDONLY, key) // which works on a read-only file system, too
	if err != nil {
		return nil, false, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = nil
		}
		return nil, false, err
	}
	return &Hold{f}, true, nil
}

// withSweepLock runs change under the sweep lock. With [unix.LOCK_SH], no sweep runs; with
// [unix.LOCK_EX], also no process can mark a blob as used.
func (d *Directory) withSweepLock(how int, change func() error) (err error) {
	f, err := d.openLock(os.O_RDWR, ".sweep")
	if err != nil {
		return fmt.Errorf("lock the store's blobs: %w", err)
	}
	defer closing(f, &err)
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(f.Fd()), how)
	}
	if err != nil {
		return fmt.Errorf("lock the store's blobs: %w", err)
	}
	return change()
}
