package cas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// PlannedPath is the planned change of one path of a directory.
type PlannedPath struct {
	Path string
	// Had and Has report whether the path exists in the tree that the directory is assumed to
	// hold, and in the tree that it is to hold.
	Had, Has bool
	// Already: the directory has the wanted state already.
	Already bool
	// Conflict says how the path differs from the assumed state; empty: no conflict.
	Conflict string
	// Blocked: the conflict is with something at the path that is not a file or a link. Only a
	// person can resolve it.
	Blocked bool
}

// ApplyPlan is the difference of two trees, planned for one directory.
type ApplyPlan struct {
	// Paths are sorted by path.
	Paths []PlannedPath

	store *Store
	root  *os.Root
	// before and after hold the entries of the paths that differ.
	before, after Manifest
}

// PlanApply compares a directory with the difference between two trees and returns what has to
// change, for the paths that wanted selects. It writes nothing. The caller must close the plan.
func (s *Store) PlanApply(ctx context.Context, dir string, from, to spec.Digest, wanted []string) (_ *ApplyPlan, err error) {
	before, after, paths, err := s.differing(ctx, from, to, wanted)
	if err != nil {
		return nil, err
	}
	a := &ApplyPlan{store: s, before: before, after: after}
	if a.root, err = os.OpenRoot(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = a.root.Close()
		}
	}()
	err = s.present(ctx, after)
	if err == nil {
		err = s.Fetch(ctx, append(before.blobs(), after.blobs()...)...)
	}
	if err != nil {
		return nil, err
	}
	for _, p := range paths {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		l, err := a.planPath(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("stat %s in %s: %w", p, dir, err)
		}
		a.Paths = append(a.Paths, l)
	}
	return a, nil
}

// Close closes the directory.
func (a *ApplyPlan) Close() error { return a.root.Close() }

// planPath compares the state of a path with the assumed and the wanted entry.
func (a *ApplyPlan) planPath(ctx context.Context, p string) (PlannedPath, error) {
	old, had := a.before[p]
	now, has := a.after[p]
	l := PlannedPath{Path: p, Had: had, Has: has}
	there, err := a.stateOf(ctx, p, old, now)
	if err != nil {
		return l, err
	}
	switch {
	case there.obstacle != "":
		l.Conflict, l.Blocked = there.obstacle, true
	case there.exists == l.Has && there.entry == now:
		l.Already = true
	case there.exists == l.Had && there.entry == old:
	default:
		l.Conflict = there.conflictWith(old, l)
	}
	return l, nil
}

// pathState is what a directory has at a path.
type pathState struct {
	exists bool
	entry  Entry
	// special: it is neither a file nor a link.
	special bool
	// obstacle says what has to be removed first because it is not a file; empty: nothing.
	obstacle string
}

// stateOf returns the state of a path. A path below something that is not a directory does not
// exist; if a file has to be created there, that something is an obstacle. A file's content is
// read only if its size is that of old or of now.
func (a *ApplyPlan) stateOf(ctx context.Context, p string, old, now Entry) (pathState, error) {
	_, has := a.after[p]
	for i, c := range p {
		if c != '/' {
			continue
		}
		above := p[:i]
		info, err := a.root.Lstat(above)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return pathState{}, nil
		case err != nil:
			return pathState{}, err
		case info.IsDir():
		case !has, a.removes(above):
			return pathState{}, nil
		default:
			return pathState{obstacle: fmt.Sprintf("%s is a %s in the directory, not a directory", above, kindOf(info.Mode()))}, nil
		}
	}
	info, err := a.root.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return pathState{}, nil
	case err != nil:
		return pathState{}, err
	case info.IsDir() && !has:
		return pathState{}, nil
	case info.IsDir():
		kept, err := a.firstKept(p)
		if err != nil || kept == "" {
			return pathState{}, err
		}
		return pathState{obstacle: "is a directory there, with " + kept}, nil
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := a.root.Readlink(p)
		return pathState{exists: true, entry: Entry{Link: target}}, err
	case !info.Mode().IsRegular():
		return pathState{exists: true, special: true}, nil
	}
	st := pathState{exists: true, entry: Entry{Size: info.Size(), Executable: info.Mode()&0o100 != 0}}
	if info.Size() == old.Size || info.Size() == now.Size {
		st.entry.SHA256, err = a.digest(ctx, p)
	}
	return st, err
}

// removes reports whether the plan removes a path.
func (a *ApplyPlan) removes(p string) bool {
	_, had := a.before[p]
	_, has := a.after[p]
	return had && !has
}

// firstKept returns the first path below a directory that the plan does not remove; empty if it
// removes all.
func (a *ApplyPlan) firstKept(dir string) (kept string, err error) {
	err = fs.WalkDir(a.root.FS(), dir, func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() || a.removes(p):
			return nil
		}
		kept = p
		return fs.SkipAll
	})
	return kept, err
}

func (a *ApplyPlan) digest(ctx context.Context, p string) (_ spec.Digest, err error) {
	f, err := a.root.OpenFile(p, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer closing(f, &err)
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", cmp.Or(err, errChanged)
	}
	_, digest, err := storage.Copy(ctx, io.Discard, f)
	return digest, err
}

// conflictWith says how the state of a path differs from the assumed entry.
func (st pathState) conflictWith(old Entry, l PlannedPath) string {
	switch {
	case !st.exists:
		return "was removed in the directory, and the session changed it"
	case st.special:
		return "is neither a file nor a link in the directory"
	case !l.Had:
		return "already exists in the directory with other content"
	case (st.entry.Link == "") != (old.Link == ""):
		return "is " + st.entry.kind() + " there, and was " + old.kind()
	case st.entry.SHA256 == old.SHA256 && st.entry.Link == old.Link:
		return fmt.Sprintf("the directory has executable: %t; at the session's start: %t", st.entry.Executable, old.Executable)
	case !l.Has:
		return "was changed in the directory, and the session removed it"
	}
	return "was changed in the directory and by the session"
}

// Write makes the changes, also of paths with a conflict. A blocked path is an error before
// anything is written. If a path has a new conflict since it was planned, a person may be editing
// it: Write returns an error before it changes that path. Each file is replaced atomically. After
// an error or a crash, planning and writing again completes the work.
func (a *ApplyPlan) Write(ctx context.Context) error {
	if i := slices.IndexFunc(a.Paths, func(l PlannedPath) bool { return l.Blocked }); i >= 0 {
		return fmt.Errorf("%s %s", a.Paths[i].Path, a.Paths[i].Conflict)
	}
	for _, l := range slices.Backward(a.Paths) { // files before their directories
		if l.Has || l.Already {
			continue
		}
		if err := a.recheck(ctx, l); err != nil {
			return err
		}
		if err := a.remove(l.Path); err != nil {
			return err
		}
	}
	for _, l := range a.Paths {
		if !l.Has || l.Already {
			continue
		}
		if err := a.recheck(ctx, l); err != nil {
			return err
		}
		if err := a.put(ctx, l.Path, a.after[l.Path]); err != nil {
			return fmt.Errorf("write %s: %w", l.Path, err)
		}
	}
	return nil
}

// recheck returns an error if the path has a conflict other than the planned one.
func (a *ApplyPlan) recheck(ctx context.Context, planned PlannedPath) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now, err := a.planPath(ctx, planned.Path)
	if err != nil {
		return fmt.Errorf("stat %s again: %w", planned.Path, err)
	}
	if now.Conflict != "" && now.Conflict != planned.Conflict {
		return fmt.Errorf("%s was changed during the comparison: it %s", planned.Path, now.Conflict)
	}
	return nil
}

// remove removes a file, and its parent directories that are then empty.
func (a *ApplyPlan) remove(p string) error {
	if err := a.root.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if a.root.Remove(dir) != nil {
			break // it is not empty
		}
	}
	return nil
}

// put writes an entry to a path.
func (a *ApplyPlan) put(ctx context.Context, p string, e Entry) error {
	if err := a.root.MkdirAll(path.Dir(p), 0o777); err != nil { // the umask applies
		return err
	}
	info, err := a.root.Lstat(p)
	if err == nil && info.IsDir() {
		if err := a.removeEmpty(p); err != nil {
			return err
		}
		info = nil
	}
	// The name depends on the path only, so a later run replaces what a crash has left.
	temp := path.Join(path.Dir(p), ".maestro-apply-"+string(spec.DigestOf([]byte(p))[:16]))
	if err := a.root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if e.Link != "" {
		err = a.root.Symlink(e.Link, temp)
	} else {
		err = a.write(ctx, temp, e, info)
	}
	if err == nil {
		err = a.root.Rename(temp, p)
	}
	if err != nil {
		_ = a.root.Remove(temp)
	}
	return err
}

// removeEmpty removes a directory that holds nothing but directories.
func (a *ApplyPlan) removeEmpty(dir string) error {
	var dirs []string
	err := fs.WalkDir(a.root.FS(), dir, func(p string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			err = fmt.Errorf("%s is not a directory", p)
		}
		dirs = append(dirs, p)
		return err
	})
	if err != nil {
		return err
	}
	for _, p := range slices.Backward(dirs) {
		if err := a.root.Remove(p); err != nil {
			return err
		}
	}
	return nil
}

// write makes a new file. It gets the permissions of the file that it is to replace, except the
// executable bits.
func (a *ApplyPlan) write(ctx context.Context, name string, e Entry, replaces fs.FileInfo) error {
	mode := fs.FileMode(0o666)
	if e.Executable {
		mode = 0o777
	}
	return a.store.writeFile(ctx, a.root, name, e, mode, func(dst *os.File) error {
		if replaces != nil && replaces.Mode().IsRegular() {
			perm := replaces.Mode().Perm() &^ 0o111
			if e.Executable {
				perm |= perm & 0o444 >> 2
			}
			if err := dst.Chmod(perm); err != nil {
				return err
			}
		}
		return dst.Sync()
	})
}

// kind describes the kind of an entry in messages.
func (e Entry) kind() string {
	if e.Link != "" {
		return "a link to " + e.Link
	}
	return "a file"
}
