package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Lock takes the lock of an assignment, which says that it has a live executor.
// While another holds it, in this process or any other, ok is false. The lock
// ends when it is unlocked, or when its process and all that have inherited the
// descriptor are gone, however they end.
func (s *Store) Lock(key session.Key, id spec.AssignmentID) (lock session.Lock, ok bool, err error) {
	if err := checkAssignment(id); err != nil {
		return nil, false, err
	}
	path, err := s.lockPath(key, id.Phase+"."+id.Persona)
	if err != nil {
		return nil, false, err
	}
	// Read-only, so that it keeps no file system from being made so.
	f, err := tryFlock(path, os.O_RDONLY)
	if errors.Is(err, unix.EBADF) || errors.Is(err, unix.EIO) {
		f, err = tryFlock(path, os.O_RDWR) // NFS locks only what may be written
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("lock %s of session %s: %w", id, key.Session, err)
	}
	return heldLock{f}, true, nil
}

func tryFlock(path string, mode int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|mode, fileMode)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// heldLock is a lock that has been taken.
type heldLock struct{ *os.File }

// Unlock does more than to close the file, which others may have inherited.
func (l heldLock) Unlock() {
	_ = unix.Flock(int(l.Fd()), unix.LOCK_UN)
	_ = l.Close()
}

// lockLimit is how long a lock is waited for that others hold for a moment: who holds it
// for longer is stopped, or cannot write. lockEvery is how often it is tried.
const (
	lockLimit = 10 * time.Second
	lockEvery = 5 * time.Millisecond
)

// withLock runs change while it holds a lock that others take for as short a time,
// waiting for it if need be.
func (s *Store) withLock(key session.Key, name string, change func() error) (err error) {
	path, err := s.lockPath(key, name)
	if err != nil {
		return err
	}
	l := flock.New(path, flock.SetPermissions(fileMode))
	ctx, cancel := context.WithTimeout(context.Background(), lockLimit)
	defer cancel()
	if _, err := l.TryLockContext(ctx, lockEvery); err != nil {
		_ = l.Close()
		if ctx.Err() != nil {
			return fmt.Errorf("lock %s of session %s: another process has held the lock for %s; if that process is stopped, continue or end it", name, key.Session, lockLimit)
		}
		return fmt.Errorf("lock %s of session %s: %w", name, key.Session, err)
	}
	defer closing(l, &err)
	return change()
}

// withSweepShared runs change while nothing is swept away. Many may at once; it must not
// take long.
func (s *Store) withSweepShared(change func() error) error {
	return s.sweepLock((*flock.Flock).RLock, change)
}

// withSweepExclusive runs change while no blob is marked as used.
func (s *Store) withSweepExclusive(change func() error) error {
	return s.sweepLock((*flock.Flock).Lock, change)
}

func (s *Store) sweepLock(lock func(*flock.Flock) error, change func() error) (err error) {
	l := flock.New(s.path("locks", ".sweep"), flock.SetPermissions(fileMode))
	err = lock(l)
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.makeDir(s.path("locks"), untilPowerLoss); err != nil {
			return fmt.Errorf("create the directory of a lock: %w", err)
		}
		err = lock(l)
	}
	if err != nil {
		_ = l.Close()
		return fmt.Errorf("lock the store's blobs: %w", err)
	}
	defer closing(l, &err)
	return change()
}

// lockPruning makes this the only prune of the store; ok is false while there is
// another.
func (s *Store) lockPruning() (unlock func(), ok bool, err error) {
	if err := s.makeDir(s.path("locks"), untilPowerLoss); err != nil {
		return nil, false, fmt.Errorf("create the directory of a lock: %w", err)
	}
	l := flock.New(s.path("locks", ".prune"), flock.SetPermissions(fileMode))
	if ok, err = l.TryLock(); err != nil || !ok {
		_ = l.Close()
		return nil, false, err
	}
	return func() { _ = l.Close() }, true, nil
}

// lockPath makes room for a lock of a session. Its file stays when it is
// released: a lock on a removed file would exclude nobody.
func (s *Store) lockPath(key session.Key, name string) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	path := s.path("locks", key.Namespace, key.Session, name)
	if err := s.makeDir(filepath.Dir(path), untilPowerLoss); err != nil {
		return "", fmt.Errorf("create the directory of a lock: %w", err)
	}
	return path, nil
}
