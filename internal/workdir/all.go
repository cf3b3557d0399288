package workdir

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// All are the directories below several roots. They are [session.PrunableDirs].
type All []*Dirs

// Assignments lists the assignments that have directories of a session below any root. It
// returns [fs.ErrNotExist] if the session has none.
func (a All) Assignments(key session.Key) (ids []spec.AssignmentID, err error) {
	found := false
	for _, d := range a {
		more, err := d.Assignments(key)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = true
		for _, id := range more {
			if !slices.Contains(ids, id) { // whoever locks each locks it once
				ids = append(ids, id)
			}
		}
	}
	if !found {
		return nil, fs.ErrNotExist
	}
	return ids, nil
}

// Remove removes the directories of all assignments of a session.
func (a All) Remove(key session.Key) error {
	var errs []error
	for _, d := range a {
		errs = append(errs, d.Remove(key))
	}
	return errors.Join(errs...)
}
