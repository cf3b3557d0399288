package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

func recordKey(key session.Key, id spec.AssignmentID) (string, error) {
	if err := id.Check(); err != nil {
		return "", err
	}
	return documentKey(key, assignmentsDir, recordName(id))
}

func recordName(id spec.AssignmentID) string { return id.Phase + "." + id.Persona + ".json" }

// recordOf returns the assignment whose record has this file name.
func recordOf(file string) (spec.AssignmentID, bool) {
	name, ok := strings.CutSuffix(file, ".json")
	phase, persona, _ := strings.Cut(name, ".")
	id := spec.AssignmentID{Phase: phase, Persona: persona}
	return id, ok && id.Check() == nil
}

// records stores the records of assignments.
type records struct {
	*documents
	sessions sessions
}

// Record reads an assignment's record. The error is [session.ErrNotFound] if there is none, and
// [session.ErrCorrupt] if it was damaged and moved to the quarantine.
func (s records) Record(key session.Key, id spec.AssignmentID) (session.Record, error) {
	r, _, err := s.record(key, id)
	return r, err
}

func (s records) record(key session.Key, id spec.AssignmentID) (r session.Record, version storage.Version, err error) {
	doc, err := recordKey(key, id)
	if err != nil {
		return r, "", err
	}
	version, err = s.readDocument(doc, "record", func(data []byte) error {
		r = session.Record{}
		if err := unseal(data, &r); err != nil {
			return err
		}
		return checkRecord(r, id)
	})
	if err != nil {
		return session.Record{}, version, err
	}
	return r, version, nil
}

func checkRecord(r session.Record, id spec.AssignmentID) error {
	if r.Schema != session.RecordSchema {
		return fmt.Errorf("its schema is %q, not %q", r.Schema, session.RecordSchema)
	}
	if r.Assignment != id {
		return fmt.Errorf("it is the record of %s", r.Assignment)
	}
	return nil
}

// PutRecord writes an assignment's record atomically and durably. If the stored record belongs to
// a later incarnation, it is not replaced and the error is [session.ErrFenced]. PutRecord fills
// in Schema and SHA256. A damaged record is moved to the quarantine and replaced.
func (s records) PutRecord(key session.Key, r session.Record) error {
	return s.updateRecord(key, r.Assignment, r.Incarnation, func(session.Record) session.Record { return r })
}

// UpdateRecord rewrites an assignment's record for an incarnation and returns it. change gets the
// stored record, or one without rounds if there is none or it was damaged. It may be called more
// than once. From then on executors of earlier incarnations are fenced. If the stored record
// belongs to a later incarnation, the error is [session.ErrFenced].
func (s records) UpdateRecord(key session.Key, id spec.AssignmentID, incarnation int, change func(*session.Record)) (r session.Record, err error) {
	err = s.updateRecord(key, id, incarnation, func(stored session.Record) session.Record {
		change(&stored)
		stored.Incarnation = max(stored.Incarnation, incarnation)
		r = stored
		return stored
	})
	if err != nil {
		return session.Record{}, err
	}
	return r, nil
}

// updateRecord writes a record for an incarnation, unless the stored one belongs to a later
// incarnation.
func (s records) updateRecord(key session.Key, id spec.AssignmentID, incarnation int, change func(session.Record) session.Record) error {
	doc, err := recordKey(key, id)
	if err != nil {
		return err
	}
	err = storage.Update(s.docs, doc, storage.Durable, func() ([]byte, storage.Version, error) {
		stored, version, err := s.record(key, id)
		switch {
		case missing(err):
			stored = session.Record{Assignment: id}
		case err != nil:
			return nil, "", err
		case stored.Incarnation > incarnation:
			return nil, "", fmt.Errorf("it is of incarnation %d, not %d: %w", stored.Incarnation, incarnation, session.ErrFenced)
		}
		r := change(stored)
		r.Schema = session.RecordSchema
		data, err := seal(r)
		return data, version, err
	})
	if err == nil {
		err = s.touch(key)
	}
	if err != nil {
		return fmt.Errorf("write the record of %s in session %s: %w", id, key.Session, err)
	}
	return nil
}

// Records reads a session's records, sorted by phase and persona. Unreadable records are skipped,
// and their errors are joined.
func (s records) Records(ctx context.Context, key session.Key) ([]session.Record, error) {
	ids, err := s.recorded(ctx, key)
	if err != nil {
		return nil, err
	}
	var out []session.Record
	var faults []error
	for _, id := range ids {
		r, err := s.Record(key, id)
		switch {
		case err == nil:
			out = append(out, r)
		case !errors.Is(err, session.ErrNotFound):
			faults = append(faults, err)
		}
	}
	return out, errors.Join(faults...)
}

// recorded lists the assignments that have a record, sorted.
func (s records) recorded(ctx context.Context, key session.Key) ([]spec.AssignmentID, error) {
	return s.sessions.assignments(ctx, key, recordOf)
}
