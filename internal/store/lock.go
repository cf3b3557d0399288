package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// Lock takes the lock of an assignment's executor. ok is false while another goroutine or process
// holds it. The lock ends when it is unlocked, or when its process and all processes that have
// inherited the descriptor have ended. The incarnation in the record excludes late executors in
// any case.
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

// CheckLocks returns an error if locks of the store do not exclude other holders. It leaves
// nothing in the store.
func (s *Store) CheckLocks() error {
	const key = "check"
	stage, err := s.docs.Stage()
	if err != nil {
		return fmt.Errorf("write into the store: %w", err)
	}
	defer stage.Close() //nolint:errcheck // a later sweep removes leftovers
	first, ok, err := stage.Hold(key)
	if err != nil {
		return fmt.Errorf("lock a file of the store: %w", err)
	}
	if !ok {
		return errors.New("an unlocked file could not be locked")
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

// withLock runs change while it holds a lock of a session. It waits for other holders, which hold
// it for a short time, too.
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
	defer l.Close() //nolint:errcheck // the writes are complete
	return change(l)
}
