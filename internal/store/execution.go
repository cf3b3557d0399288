package store

import (
	"bytes"
	"context"
	"fmt"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/storage"
)

// Execution reads a session's execution_state.json. The error is [session.ErrNotFound] if there
// is none, and [session.ErrCorrupt] if it was damaged and moved to the quarantine.
func (s sessions) Execution(key session.Key) (session.Execution, error) {
	e, _, err := s.execution(key, func(data []byte) (session.Execution, error) { return parseExecution(key, data) })
	return e, err
}

// Incarnation returns the incarnation in a session's status document. Errors are those of
// Execution.
func (s sessions) Incarnation(key session.Key) (int, error) {
	e, _, err := s.execution(key, func(data []byte) (session.Execution, error) { return s.parseCached(key, data) })
	return e.Incarnation, err
}

// parseCached is parseExecution with a cache of documents that this process has written. The
// result must not be changed.
func (s sessions) parseCached(key session.Key, data []byte) (session.Execution, error) {
	if e, ok := s.written.get(cas.DigestOf(data)); ok {
		return e, nil
	}
	return parseExecution(key, data)
}

func (s sessions) execution(key session.Key, parse func(data []byte) (session.Execution, error)) (e session.Execution, version storage.Version, err error) {
	doc, err := documentKey(key, executionFile)
	if err != nil {
		return e, "", err
	}
	version, err = s.readDocument(doc, "state", func(data []byte) (err error) {
		e, err = parse(data)
		return err
	})
	return e, version, err
}

func parseExecution(key session.Key, data []byte) (e session.Execution, err error) {
	if err := unseal(data, &e); err != nil {
		return session.Execution{}, err
	}
	if e.Schema != session.ExecutionSchema || e.Session != key.Session || e.Namespace != key.Namespace {
		return session.Execution{}, fmt.Errorf("it is not the %s of session %s", session.ExecutionSchema, key.Session)
	}
	return e, nil
}

// UpdateExecution rewrites a session's execution_state.json. change gets the stored state, or a
// zero value if there is none or it was damaged. It must not call the store, and may be called
// more than once. Updates of one session are serialised between processes, and each increments
// the revision. Readers see the old or the new state. After a power loss the last updates may be
// missing. If change does not modify the state, nothing is written.
func (s sessions) UpdateExecution(key session.Key, change func(*session.Execution)) error {
	doc, err := documentKey(key, executionFile)
	var now session.Execution
	if err == nil {
		err = storage.Update(s.docs, doc, storage.UntilPowerLoss, func() (data []byte, version storage.Version, err error) {
			now, data, version, err = s.changed(key, change)
			return data, version, err
		})
	}
	if err == nil {
		err = s.putRows(now)
	}
	if err != nil {
		return fmt.Errorf("write the state of session %s: %w", key.Session, err)
	}
	return nil
}

// putRows writes the rows of a status. A store that an archive is unpacked into has none. They are written again if nothing
// has changed: a process may have ended in between.
func (s *documents) putRows(e session.Execution) error {
	if s.state == nil {
		return nil
	}
	return s.state.PutExecution(context.Background(), e, "")
}

// touch notes that something about a session has changed.
func (s *documents) touch(key session.Key) error {
	if s.state == nil {
		return nil
	}
	return s.state.Touch(context.Background(), key)
}

// changed returns a session's state after change, its document, and the version that was read; the document is
// nil if the state did not change.
func (s sessions) changed(key session.Key, change func(*session.Execution)) (session.Execution, []byte, storage.Version, error) {
	var stored []byte
	e, version, err := s.execution(key, func(data []byte) (session.Execution, error) {
		stored = data
		return s.parseCached(key, data)
	})
	switch {
	case err == nil:
		e.Status = e.Clone()
	case !missing(err):
		return e, nil, "", err
	}
	revision, boundary := e.Revision, e.BoundaryAt
	change(&e)
	if err == nil && e.BoundaryAt.Equal(boundary) {
		if same, err := seal(e); err != nil || bytes.Equal(same, stored) {
			return e, nil, "", err
		}
	}
	e.Schema, e.Store, e.Namespace, e.Session = session.ExecutionSchema, s.id, key.Namespace, key.Session
	e.Revision = revision + 1
	e.UpdatedAt = s.now().UTC()
	data, err := seal(e)
	if err == nil {
		s.written.add(cas.DigestOf(data), e, len(data))
	}
	return e, data, version, err
}
