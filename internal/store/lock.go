package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// Lock takes the lock of an assignment, which says that it has a live executor.
// While another holds it, in this process or any other, ok is false. The lock
// ends when it is unlocked, or when its process and all that have inherited the
// descriptor are gone, however they end. It is a lock of the file system, because agents
// on the host inherit it. With a storage on other machines a lease takes its place; the
// incarnation in the record fences late executors in any case.
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

// withLock runs change while it holds a lock of a session that others take for as short a
// time, waiting for it if need be.
func (s *Store) withLock(key session.Key, name string, change func(storage.Locked) error) error {
	doc, err := documentKey(key, name)
	if err != nil {
		return err
	}
	return s.locked(doc, change)
}

func (s *Store) locked(key string, change func(storage.Locked) error) (err error) {
	l, err := s.docs.Lock(context.Background(), key)
	if err != nil {
		return err
	}
	defer closing(l, &err)
	return change(l)
}

// lockPruning makes this the only prune of the store; ok is false while there is
// another.
func (s *Store) lockPruning() (unlock func(), ok bool, err error) {
	if err := s.files.MakeDir(s.path("locks"), storage.UntilPowerLoss); err != nil {
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
	if err := s.files.MakeDir(filepath.Dir(path), storage.UntilPowerLoss); err != nil {
		return "", fmt.Errorf("create the directory of a lock: %w", err)
	}
	return path, nil
}
