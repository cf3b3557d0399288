package store

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/storage"
)

// Execution reads a session's execution_state.json: [session.ErrNotFound] if there
// is none, [session.ErrCorrupt] if it was damaged; it is then in the quarantine.
func (s sessions) Execution(key session.Key) (session.Execution, error) {
	e, _, err := s.execution(key)
	return e, err
}

func (s sessions) execution(key session.Key) (e session.Execution, version storage.Version, err error) {
	doc, err := documentKey(key, executionFile)
	if err != nil {
		return e, "", err
	}
	version, err = s.readDocument(doc, "state", func(data []byte) error {
		e = session.Execution{}
		if err := unseal(data, &e); err != nil {
			return err
		}
		if e.Schema != session.ExecutionSchema || e.Session != key.Session || e.Namespace != key.Namespace {
			return fmt.Errorf("it is not the %s of session %s", session.ExecutionSchema, key.Session)
		}
		return nil
	})
	if err != nil {
		return session.Execution{}, version, err
	}
	return e, version, nil
}

// UpdateExecution rewrites a session's execution_state.json. change gets what
// is stored, or a zero value if nothing is or it was damaged, and must not call
// the store; it may be called more than once. Updates of one session, by any process,
// follow one another, and each raises the revision by one. A reader sees one or the
// other, never half of either; after a power loss the last ones may be missing. Where
// change leaves the state as it is, nothing is written.
func (s sessions) UpdateExecution(key session.Key, change func(*session.Execution)) error {
	doc, err := documentKey(key, executionFile)
	if err == nil {
		err = storage.Update(s.docs, doc, storage.UntilPowerLoss, func() ([]byte, storage.Version, error) { return s.changed(key, change) })
	}
	if err != nil {
		return fmt.Errorf("write the state of session %s: %w", key.Session, err)
	}
	return nil
}

// changed returns a session's state as change leaves it, and the version of what change
// got; nil if it is the same.
func (s sessions) changed(key session.Key, change func(*session.Execution)) ([]byte, storage.Version, error) {
	e, version, err := s.execution(key)
	if err != nil && !missing(err) {
		return nil, "", err
	}
	revision := e.Revision
	was, err := json.Marshal(e)
	if err != nil {
		return nil, "", err
	}
	change(&e)
	is, err := json.Marshal(e)
	if err != nil || bytes.Equal(is, was) {
		return nil, "", err
	}
	e.Schema, e.Store, e.Namespace, e.Session = session.ExecutionSchema, s.id, key.Namespace, key.Session
	e.Revision = revision + 1
	e.UpdatedAt = s.now().UTC()
	data, err := seal(e)
	return data, version, err
}
