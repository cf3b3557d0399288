package store

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/maestro-hive/maestro/internal/bounded"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// WorkDir makes the directories that an assignment is worked on in. They are
// the same each time on a host: agents find their conversations by them. Their parent
// has a random name of 128 bits, so that an agent of another user than the worker, which
// cannot list the directories above, finds its own only.
func (s *Store) WorkDir(key session.Key, id spec.AssignmentID) (session.WorkDir, error) {
	dir, err := s.workPath(key)
	if err != nil {
		return session.WorkDir{}, err
	}
	if err := checkAssignment(id); err != nil {
		return session.WorkDir{}, err
	}
	dir = filepath.Join(dir, id.Phase, id.Persona)
	w, err := s.makeWorkDirs(dir)
	if errors.Is(err, fs.ErrPermission) && s.RestoreAccess(dir) == nil { // an agent has locked them
		w, err = s.makeWorkDirs(dir)
	}
	if err != nil {
		return session.WorkDir{}, fmt.Errorf("create a working directory: %w", err)
	}
	return w, nil
}

func (s *Store) makeWorkDirs(dir string) (w session.WorkDir, err error) {
	if err := s.makeWorkParents(dir); err != nil {
		return w, err
	}
	w.LiveLog = filepath.Join(dir, liveLogFile)
	if dir, err = s.privateDir(dir); err != nil {
		return w, err
	}
	w.Tree, w.Home, w.Tmp = filepath.Join(dir, "tree"), filepath.Join(dir, "home"), filepath.Join(dir, "tmp")
	for _, d := range []string{w.Tree, w.Home, w.Tmp} {
		if err := makeWorkDir(d); err != nil {
			return w, err
		}
	}
	return w, nil
}

// privateDir makes the directory with a random name in an assignment's, or returns the
// one that is there. The caller holds the assignment's lock.
func (s *Store) privateDir(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if name, err := hex.DecodeString(e.Name()); err == nil && len(name) == secretBytes && e.IsDir() {
			dir = filepath.Join(dir, e.Name())
			return dir, s.RestoreAccess(dir) // an agent may have locked it
		}
	}
	name := make([]byte, secretBytes)
	_, _ = rand.Read(name) // never fails
	dir = filepath.Join(dir, hex.EncodeToString(name))
	return dir, s.makeWorkParents(dir)
}

// secretBytes is how long the random name of a directory is.
const secretBytes = 16

// liveLogFile is the file in an assignment's directory with the output of its running, or last,
// attempt.
const liveLogFile = "live.log"

// OpenLiveLog opens the live log of an assignment's attempt; the error is [fs.ErrNotExist]
// if there is none. The file grows until the attempt ends; the next attempt creates a new one.
// An agent may have replaced it: only a regular file is opened, and no link is followed.
func (s *Store) OpenLiveLog(key session.Key, id spec.AssignmentID) (_ *os.File, err error) {
	dir, err := s.workPath(key)
	if err != nil {
		return nil, err
	}
	if err := checkAssignment(id); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, id.Phase, id.Persona, liveLogFile), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fs.ErrNotExist, err, f.Close())
	}
	return f, nil
}

// makeWorkParents makes the directories above those that are worked in. Outside
// the store anybody may pass through them: agents may run as another user.
func (s *Store) makeWorkParents(dir string) error {
	if s.workRoot == s.path("work") {
		return os.MkdirAll(dir, dirMode)
	}
	return os.MkdirAll(dir, 0o711)
}

// makeWorkDir makes a directory. What an agent has put in its place is removed.
func makeWorkDir(dir string) error {
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		if err := os.Remove(dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err == nil && info.Mode().Perm()&0o700 != 0o700 { // as an agent has left it
		err = os.Chmod(dir, info.Mode().Perm()|0o700)
	}
	return err
}

// RemoveWork removes the directories of all assignments of a session. They hold
// nothing that is needed once the session is done.
func (s *Store) RemoveWork(key session.Key) (err error) {
	dir, err := s.workPath(key)
	if err != nil {
		return err
	}
	trees, err := filepath.Glob(filepath.Join(dir, "*", "*", "*", "tree"))
	if err != nil {
		return err
	}
	for _, tree := range trees {
		if err := s.DropIndex(tree); err != nil {
			return fmt.Errorf("forget %s: %w", tree, err)
		}
	}
	root, err := os.OpenRoot(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer closing(root, &err)
		err = bounded.RemoveAll(root, filepath.Base(dir))
	}
	if err != nil {
		return fmt.Errorf("remove working directories: %w", err)
	}
	return nil
}

func (s *Store) workPath(key session.Key) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	return filepath.Join(s.workRoot, key.Namespace, key.Session), nil
}

// ClearTmp removes everything in an assignment's TMPDIR. Nothing may be at work there.
func (s *Store) ClearTmp(dir session.WorkDir) error {
	return s.clearDir(dir, filepath.Base(dir.Tmp))
}

// ClearWork removes everything that an agent has left in an assignment's directories:
// first TMPDIR, then the tree, then the rest. Nothing may be at work there.
func (s *Store) ClearWork(dir session.WorkDir) error {
	if err := s.DropIndex(dir.Tree); err != nil {
		return fmt.Errorf("forget %s: %w", dir.Tree, err)
	}
	names := []string{filepath.Base(dir.Tmp), filepath.Base(dir.Tree)}
	entries, err := os.ReadDir(filepath.Dir(dir.Tree))
	if err != nil {
		return err
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return s.clearDir(dir, names...)
}

// clearDir removes what has these names in an assignment's directory, and makes the
// directories again that agents need.
func (s *Store) clearDir(dir session.WorkDir, names ...string) (err error) {
	base := filepath.Dir(dir.Tree)
	root, err := os.OpenRoot(base)
	if err != nil {
		return fmt.Errorf("clear %s: %w", base, err)
	}
	defer closing(root, &err)
	var failed error
	for _, name := range names {
		failed = errors.Join(failed, bounded.RemoveAll(root, name))
	}
	for _, d := range []string{dir.Tree, dir.Home, dir.Tmp} {
		failed = errors.Join(failed, makeWorkDir(d))
	}
	return failed
}
