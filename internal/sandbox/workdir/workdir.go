// Package workdir manages the directories on this host in which agents work: one for each
// assignment, below one for its session. They are not part of the store, and nothing in
// them is needed once a session has ended.
//
//	<root>/<namespace>/<session>/<phase>/<persona>/live.log        output of the running, or last, attempt
//	<root>/<namespace>/<session>/<phase>/<persona>/<random name>/  tree/, home/, tmp/: see [session.WorkDir]
package workdir

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
)

const (
	// privateMode is for directories that only the worker's user and agents enter, sharedMode
	// for those above the directories of agents that run as another user.
	privateMode fs.FileMode = 0o700
	sharedMode  fs.FileMode = 0o711

	// secretBytes is how long the random name of a directory is.
	secretBytes = 16

	// liveLogFile is the file in an assignment's directory with the output of its running, or
	// last, attempt.
	liveLogFile = "live.log"
)

// Options are the settings of [New].
type Options struct {
	// Root is the directory of all of them. It is made with the first one.
	Root string
	// Shared: agents run as another user, who may enter the directories below the root but
	// not list them.
	Shared bool
	// MaxWritten bounds the bytes that one attempt writes; zero: no bound.
	MaxWritten int64
	// MaxWrittenFiles bounds its files and directories; zero: no bound.
	MaxWrittenFiles int64
	// Acquire returns the layers of trees; nil: trees have no layers.
	Acquire Acquire
	// Free removes from a full disk what can be made again, and reports whether there was any. It is
	// called for one caller at a time. nil: nothing can be removed.
	Free func(ctx context.Context) bool
}

// Dirs are the directories in which agents work. Its methods may be used by many goroutines.
// A caller that changes an assignment's directories must hold the assignment's lock.
type Dirs struct {
	options Options

	// mu is held while space is freed; freed is how often some was.
	mu    sync.RWMutex
	freed int64
}

// New returns the directories below a root.
func New(o Options) *Dirs { return &Dirs{options: o} }

// Root returns the directory of all of them.
func (d *Dirs) Root() string { return d.options.Root }

// DefaultRoot returns the root for agents that run as the worker's own user, from the directory
// of its store.
func DefaultRoot(stateDir string) string { return filepath.Join(stateDir, "work") }

// Beside is the directory, by that of a store, with what agents use that run as another user, who
// cannot enter the store.
func Beside(stateDir string) string { return filepath.Clean(stateDir) + ".work" }

// SharedRoot is where agents work that run as another user, by the directory of the store.
func SharedRoot(stateDir string) string { return filepath.Join(Beside(stateDir), "sessions") }

func (d *Dirs) path(key session.Key) (string, error) {
	if err := key.Check(); err != nil {
		return "", err
	}
	return filepath.Join(d.options.Root, key.Namespace, key.Session), nil
}

func (d *Dirs) assignmentPath(key session.Key, id spec.AssignmentID) (string, error) {
	dir, err := d.path(key)
	if err == nil {
		err = id.Check()
	}
	return filepath.Join(dir, id.Phase, id.Persona), err
}

// Make makes the working directories of an assignment, or returns those that exist. Their paths
// stay the same on a host: agents find their conversations by them. Their parent has a random
// name of 128 bits. An agent with another user than the worker cannot list the directories
// above, so it finds its own only.
func (d *Dirs) Make(key session.Key, id spec.AssignmentID) (session.WorkDir, error) {
	dir, err := d.assignmentPath(key, id)
	if err != nil {
		return session.WorkDir{}, err
	}
	w, err := d.makeIn(dir)
	if errors.Is(err, fs.ErrPermission) && d.restoreAccess(dir) == nil { // an agent has changed their modes
		w, err = d.makeIn(dir)
	}
	if err != nil {
		return session.WorkDir{}, fmt.Errorf("create a working directory: %w", err)
	}
	return w, nil
}

func (d *Dirs) makeIn(dir string) (w session.WorkDir, err error) {
	w.LiveLog = filepath.Join(dir, liveLogFile)
	if dir, w.New, err = d.secretDir(dir); err != nil {
		return w, err
	}
	w.Tree, w.Home, w.Tmp = filepath.Join(dir, "tree"), filepath.Join(dir, "home"), filepath.Join(dir, "tmp")
	return w, makeAll(w)
}

// makeParents makes the parents of working directories.
func (d *Dirs) makeParents(dir string) error {
	if d.options.Shared {
		return os.MkdirAll(dir, sharedMode)
	}
	return os.MkdirAll(dir, privateMode)
}

// secretDir makes the directory with a random name in an assignment's, or returns the
// one that is there.
func (d *Dirs) secretDir(dir string) (path string, made bool, err error) {
	found, err := findSecretDir(dir)
	switch {
	case err == nil:
		return found, false, d.restoreAccess(found) // an agent may have changed its mode
	case !errors.Is(err, fs.ErrNotExist):
		return "", false, err
	}
	name := make([]byte, secretBytes)
	_, _ = rand.Read(name) // never fails
	dir = filepath.Join(dir, hex.EncodeToString(name))
	return dir, true, d.makeParents(dir)
}

// findSecretDir returns the directory with a random name in an assignment's;
// [fs.ErrNotExist] if there is none.
func findSecretDir(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if name, err := hex.DecodeString(e.Name()); err == nil && len(name) == secretBytes && e.IsDir() {
			return filepath.Join(dir, e.Name()), nil
		}
	}
	return "", fs.ErrNotExist
}

func makeAll(w session.WorkDir) error {
	var errs []error
	for _, dir := range []string{w.Tree, w.Home, w.Tmp} {
		errs = append(errs, makeDir(dir))
	}
	return errors.Join(errs...)
}

// makeDir makes a directory in an existing one. A file that an agent has put in its place is removed.
func makeDir(dir string) error {
	err := os.Mkdir(dir, privateMode)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return errors.Join(os.Remove(dir), os.Mkdir(dir, privateMode))
	case info.Mode().Perm()&0o700 != 0o700: // as an agent has left it
		return os.Chmod(dir, info.Mode().Perm()|0o700)
	}
	return nil
}

// RestoreAccess makes the directories above an assignment's tree accessible to their owner
// again: an agent may have changed their modes.
func (d *Dirs) RestoreAccess(w session.WorkDir) error { return d.restoreAccess(filepath.Dir(w.Tree)) }

func (d *Dirs) restoreAccess(dir string) error {
	rel, err := filepath.Rel(d.options.Root, dir)
	if err != nil || !filepath.IsLocal(rel) {
		return fs.ErrPermission
	}
	at := d.options.Root
	for _, name := range strings.Split(rel, string(filepath.Separator)) {
		at = filepath.Join(at, name)
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		if info.IsDir() && info.Mode().Perm()&0o700 != 0o700 {
			if err := os.Chmod(at, info.Mode().Perm()|0o700); err != nil {
				return err
			}
		}
	}
	return nil
}

// OpenLiveLog opens the live log of an assignment's attempt; the error is [fs.ErrNotExist]
// if there is none. The file grows until the attempt ends; the next attempt creates a new one.
// An agent may have replaced it: only a regular file is opened, and no link is followed.
func (d *Dirs) OpenLiveLog(key session.Key, id spec.AssignmentID) (*os.File, error) {
	dir, err := d.assignmentPath(key, id)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, liveLogFile), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fs.ErrNotExist, err, f.Close())
	}
	return f, nil
}

// Assignments lists the assignments of a session that have directories. It returns
// [fs.ErrNotExist] if the session has none.
func (d *Dirs) Assignments(key session.Key) ([]spec.AssignmentID, error) {
	dir, err := d.path(key)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(dir); err != nil {
		return nil, err
	}
	var ids []spec.AssignmentID
	for _, path := range bounded.Below(dir, 2) {
		id := spec.AssignmentID{Phase: filepath.Base(filepath.Dir(path)), Persona: filepath.Base(path)}
		if id.Check() == nil {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Sessions lists the sessions that have directories.
func (d *Dirs) Sessions() (keys []session.Key, err error) {
	for _, path := range bounded.Below(d.options.Root, 2) {
		key := session.Key{Namespace: filepath.Base(filepath.Dir(path)), Session: filepath.Base(path)}
		if key.Check() == nil {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// RemoveAssignment removes the directory of an assignment, but not its live log. It reports whether
// there was one. No process may use it.
func (d *Dirs) RemoveAssignment(key session.Key, id spec.AssignmentID) (removed bool, err error) {
	path, err := d.assignmentPath(key, id)
	if err != nil {
		return false, err
	}
	dir, err := findSecretDir(path)
	if err != nil {
		return false, nil //nolint:nilerr // it has none
	}
	err = removeDir(dir)
	return err == nil, err
}

// Remove removes the directories of all assignments of a session.
func (d *Dirs) Remove(key session.Key) error {
	dir, err := d.path(key)
	if err != nil {
		return err
	}
	return removeDir(dir)
}

// removeDir removes a directory with all below it. That it does not exist is no error.
func removeDir(dir string) error {
	if err := bounded.RemoveTree(dir); err != nil {
		return fmt.Errorf("remove working directories: %w", err)
	}
	return nil
}

// ClearTmp removes everything in an assignment's TMPDIR. No process may use the directories.
func (d *Dirs) ClearTmp(w session.WorkDir) error { return clearDir(w, filepath.Base(w.Tmp)) }

// Clear removes everything that an agent has left in an assignment's directories:
// first TMPDIR, then the tree, then the rest. No process may use the directories.
func (d *Dirs) Clear(w session.WorkDir) error {
	names := []string{filepath.Base(w.Tmp), filepath.Base(w.Tree)}
	entries, err := os.ReadDir(filepath.Dir(w.Tree))
	if err != nil {
		return err
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return clearDir(w, names...)
}

// clearDir removes the entries with these names in an assignment's directory, and makes the
// directories that agents need again.
func clearDir(w session.WorkDir, names ...string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, bounded.RemoveTree(filepath.Join(filepath.Dir(w.Tree), name)))
	}
	return errors.Join(append(errs, makeAll(w))...)
}
