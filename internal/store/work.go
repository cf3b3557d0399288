package store

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/team"
)

// WorkDir makes the directories that an assignment is worked on in. They are
// the same each time: agents find their conversations by them.
func (s *Store) WorkDir(key team.SessionKey, id team.AssignmentID) (team.WorkDir, error) {
	dir, err := s.workPath(key)
	if err != nil {
		return team.WorkDir{}, err
	}
	if err := checkAssignment(id); err != nil {
		return team.WorkDir{}, err
	}
	dir = filepath.Join(dir, id.Phase, id.Persona)
	w := team.WorkDir{Tree: filepath.Join(dir, "tree"), Home: filepath.Join(dir, "home"), Tmp: filepath.Join(dir, "tmp")}
	for _, d := range []string{w.Tree, w.Home, w.Tmp} {
		if err := os.MkdirAll(d, dirMode); err != nil {
			return team.WorkDir{}, fmt.Errorf("make a directory to work in: %w", err)
		}
	}
	return w, nil
}

// RemoveWork removes the directories of all assignments of a session. They hold
// nothing that is needed once the session is done.
func (s *Store) RemoveWork(key team.SessionKey) error {
	dir, err := s.workPath(key)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the directories that were worked in: %w", err)
	}
	return nil
}

func (s *Store) workPath(key team.SessionKey) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	return filepath.Join(s.workRoot, key.Namespace, key.Session), nil
}
