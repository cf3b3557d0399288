package store

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/team"
)

// Execution reads a session's execution_state.json: [team.ErrNotFound] if there
// is none, [team.ErrCorrupt] if it was damaged; it is then in the quarantine.
func (s *Store) Execution(key team.SessionKey) (team.Execution, error) {
	dir, err := s.SessionDir(key)
	if err != nil {
		return team.Execution{}, err
	}
	var e team.Execution
	err = s.readDocument(filepath.Join(dir, executionFile), "state", func(data []byte) error {
		e = team.Execution{}
		if err := s.unseal(data, &e); err != nil {
			return err
		}
		if e.Schema != team.ExecutionSchema || e.Session != key.Session || e.Namespace != key.Namespace {
			return fmt.Errorf("it is not the %s of session %s", team.ExecutionSchema, key.Session)
		}
		return nil
	})
	if err != nil {
		return team.Execution{}, err
	}
	return e, nil
}

// UpdateExecution rewrites a session's execution_state.json. change gets what
// is stored, or a zero value if nothing is or it was damaged, and must not call
// the store. Updates of one session, by any process, follow one another, and
// each raises the revision by one. A reader sees one or the other, never half of
// either; after a power loss the last ones may be missing.
func (s *Store) UpdateExecution(key team.SessionKey, change func(*team.Execution)) error {
	dir, err := s.SessionDir(key)
	if err != nil {
		return err
	}
	return s.under(key, executionFile, func() error {
		e, err := s.Execution(key)
		if err != nil && !errors.Is(err, team.ErrNotFound) && !errors.Is(err, team.ErrCorrupt) {
			return err
		}
		revision := e.Revision
		change(&e)
		e.Schema, e.Store, e.Namespace, e.Session = team.ExecutionSchema, s.id, key.Namespace, key.Session
		e.Revision = revision + 1
		e.UpdatedAt = s.now().UTC()
		data, err := s.seal(e)
		if err != nil {
			return fmt.Errorf("write the state of session %s: %w", key.Session, err)
		}
		if err := s.write(filepath.Join(dir, executionFile), data, untilPowerLoss); err != nil {
			return fmt.Errorf("write the state of session %s: %w", key.Session, err)
		}
		return nil
	})
}
