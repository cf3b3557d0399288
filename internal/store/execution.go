package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/session"
)

// Execution reads a session's execution_state.json: [session.ErrNotFound] if there
// is none, [session.ErrCorrupt] if it was damaged; it is then in the quarantine.
func (s *Store) Execution(key session.Key) (session.Execution, error) {
	dir, err := s.SessionDir(key)
	if err != nil {
		return session.Execution{}, err
	}
	var e session.Execution
	err = s.readDocument(filepath.Join(dir, executionFile), "state", func(data []byte) error {
		e = session.Execution{}
		if err := s.unseal(data, &e); err != nil {
			return err
		}
		if e.Schema != session.ExecutionSchema || e.Session != key.Session || e.Namespace != key.Namespace {
			return fmt.Errorf("it is not the %s of session %s", session.ExecutionSchema, key.Session)
		}
		return nil
	})
	if err != nil {
		return session.Execution{}, err
	}
	return e, nil
}

// UpdateExecution rewrites a session's execution_state.json. change gets what
// is stored, or a zero value if nothing is or it was damaged, and must not call
// the store; it may be called more than once. Updates of one session, by any process,
// follow one another, and each raises the revision by one. A reader sees one or the
// other, never half of either; after a power loss the last ones may be missing. Where
// change leaves the state as it is, nothing is written.
//
// The new state is written beside the old one, and takes its place if that has not
// changed since: a process that is stopped while it writes keeps nobody waiting, and
// what it wrote is not used any more.
func (s *Store) UpdateExecution(key session.Key, change func(*session.Execution)) error {
	err := errChanged
	for try := 0; try < freeTries && errors.Is(err, errChanged); try++ {
		err = s.replaceExecution(key, change, func(install func() error) error { return s.withLock(key, executionFile, install) })
	}
	if errors.Is(err, errChanged) { // many write it at once: take turns
		err = s.withLock(key, executionFile, func() error {
			return s.replaceExecution(key, change, func(install func() error) error { return install() })
		})
	}
	if err != nil {
		return fmt.Errorf("write the state of session %s: %w", key.Session, err)
	}
	return nil
}

// freeTries is how often a state is written beside the old one before its lock is held
// for the whole of it.
const freeTries = 3

// replaceExecution writes a changed state and has it installed under the state's lock.
// errChanged says that another one was installed meanwhile.
func (s *Store) replaceExecution(key session.Key, change func(*session.Execution), locked func(install func() error) error) error {
	dir, err := s.SessionDir(key)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, executionFile)
	e, err := s.Execution(key)
	none := errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt)
	if err != nil && !none {
		return err
	}
	before, revision := e.SHA256, e.Revision
	was, err := json.Marshal(e)
	if err != nil {
		return err
	}
	change(&e)
	is, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if bytes.Equal(is, was) {
		return nil
	}
	e.Schema, e.Store, e.Namespace, e.Session = session.ExecutionSchema, s.id, key.Namespace, key.Session
	e.Revision = revision + 1
	e.UpdatedAt = s.now().UTC()
	data, err := s.seal(e)
	if err != nil {
		return err
	}
	temp, err := s.writeTemp(path, data, untilPowerLoss)
	if err != nil {
		return err
	}
	err = locked(func() error {
		now, err := s.Execution(key)
		if err != nil && !errors.Is(err, session.ErrNotFound) && !errors.Is(err, session.ErrCorrupt) {
			return err
		}
		if now.SHA256 != before {
			return errChanged
		}
		return s.install(temp.Name(), path, untilPowerLoss)
	})
	if err != nil {
		_ = os.Remove(temp.Name())
	}
	return err
}
