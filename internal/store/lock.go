package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// Lock takes the lock of an assignment, which says that it has a live executor.
// While another holds it, in this process or any other, ok is false. The lock
// ends when it is unlocked, or when its process and all that have inherited the
// descriptor are gone, however they end. The incarnation in the record excludes late
// executors in any case.
func (s sessions) Lock(key session.Key, id spec.AssignmentID) (lock session.Lock, ok bool, err error) {
	if err := id.Check(); err != nil {
		return nil, false, err
	}
	if err := key.Check(); err != nil {
		return nil, false, err
	}
	held, ok, err := s.docs.Hold(key.Namespace + "/" + key.Session + "/" + id.Phase + "." + id.Persona)
	if err != nil {
		return nil, false, fmt.Errorf("lock %s of session %s: %w", id, key.Session, err)
	}
	if !ok {
		return nil, false, nil
	}
	return held, true, nil
}

// CheckLocks tries whether a lock excludes those that do not hold it: nil if it does. It leaves
// nothing in the store.
func (s *Store) CheckLocks() error {
	const key = "check"
	stage, err := s.docs.Stage()
	if err != nil {
		return fmt.Errorf("write into the store: %w", err)
	}
	defer stage.Close() //nolint:errcheck // swept away later
	first, ok, err := stage.Hold(key)
	if err != nil {
		return fmt.Errorf("lock a file of the store: %w", err)
	}
	if !ok {
		return errors.New("a file that nobody has locked could not be locked")
	}
	defer first.Unlock()
	second, ok, err := stage.Hold(key)
	if err != nil {
		return fmt.Errorf("lock a file of the store: %w", err)
	}
	if !ok {
		return nil
	}
	second.Unlock()
	return errors.New("a file was locked twice at the same time")
}

// withLock runs change while it holds a lock of a session that others take for as short a
// time, waiting for it if need be.
func (s *documents) withLock(key session.Key, name string, change func(storage.Locked) error) error {
	doc, err := documentKey(key, name)
	if err != nil {
		return err
	}
	return s.locked(doc, change)
}

func (s *documents) locked(key string, change func(storage.Locked) error) error {
	l, err := s.docs.Lock(context.Background(), key)
	if err != nil {
		return err
	}
	defer l.Close() //nolint:errcheck // what was written is written
	return change(l)
}
