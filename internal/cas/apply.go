package cas

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// Landing is what is to become of one path of a directory.
type Landing struct {
	Path string
	// Had and Has report whether there is something at the path in the tree that
	// the directory is taken to hold, and in the one that it shall hold.
	Had, Has bool
	// Already: the directory has it as it shall be.
	Already bool
	// Conflict says why it is not as it is taken to be; empty: it is.
	Conflict string
	// Blocked: the conflict is with something that is no file at the path, and
	// nothing but a person's hand clears it away.
	Blocked bool
}

// Application is a difference of two trees that is to be made in a directory.
type Application struct {
	// Landings are in the order of their paths.
	Landings []Landing

	store *Store
	root  *os.Root
	// before and after have the paths that differ.
	before, after Manifest
}

// PlanApply looks what it takes to make in a directory what differs between two
// trees, as far as it is wanted. Nothing is written. The application must be closed.
func (s *Store) PlanApply(ctx context.Context, dir string, from, to spec.Digest, wanted []string) (_ *Application, err error) {
	before, after, paths, err := s.differing(ctx, from, to, wanted)
	if err != nil {
		return nil, err
	}
	a := &Application{store: s, before: before, after: after}
	if a.root, err = os.OpenRoot(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = a.root.Close()
		}
	}()
	for _, p := range paths {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := s.present(p, after[p]); err != nil {
			return nil, err
		}
		l, err := a.land(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("stat %s in %s: %w", p, dir, err)
		}
		a.Landings = append(a.Landings, l)
	}
	return a, nil
}

// Close lets go of the directory.
func (a *Application) Close() error { return a.root.Close() }

// land compares what is at a path with what was and what shall be.
func (a *Application) land(ctx context.Context, p string) (Landing, error) {
	old, had := a.before[p]
	now, has := a.after[p]
	l := Landing{Path: p, Had: had, Has: has}
	there, err := a.standing(ctx, p, old, now)
	if err != nil {
		return l, err
	}
	switch {
	case there.inTheWay != "":
		l.Conflict, l.Blocked = there.inTheWay, true
	case there.exists == l.Has && there.entry == now:
		l.Already = true
	case there.exists == l.Had && there.entry == old:
	default:
		l.Conflict = there.against(old, l)
	}
	return l, nil
}

// standing is what a directory has at a path.
type standing struct {
	exists bool
	entry  Entry
	// special: it is neither a file nor a link.
	special bool
	// inTheWay says what is not a file at the path and has to go first.
	inTheWay string
}

// standing looks at a path. Nothing is at a path below what is no directory, unless
// that is in the way of a file to come. Of a file whose size is neither that of old
// nor of now, the content is not read.
func (a *Application) standing(ctx context.Context, p string, old, now Entry) (standing, error) {
	_, has := a.after[p]
	for i, c := range p {
		if c != '/' {
			continue
		}
		above := p[:i]
		info, err := a.root.Lstat(above)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return standing{}, nil
		case err != nil:
			return standing{}, err
		case info.IsDir():
		case !has, a.goes(above):
			return standing{}, nil
		default:
			return standing{inTheWay: fmt.Sprintf("%s is a %s in the directory, not a directory", above, sortOfFile(info.Mode()))}, nil
		}
	}
	info, err := a.root.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return standing{}, nil
	case err != nil:
		return standing{}, err
	case info.IsDir() && !has:
		return standing{}, nil
	case info.IsDir():
		kept, err := a.keptBelow(p)
		if err != nil || kept == "" {
			return standing{}, err
		}
		return standing{inTheWay: "is a directory there, with " + kept}, nil
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := a.root.Readlink(p)
		return standing{exists: true, entry: Entry{Link: target}}, err
	case !info.Mode().IsRegular():
		return standing{exists: true, special: true}, nil
	}
	st := standing{exists: true, entry: Entry{Size: info.Size(), Executable: info.Mode()&0o100 != 0}}
	if info.Size() == old.Size || info.Size() == now.Size {
		st.entry.SHA256, err = a.digest(ctx, p)
	}
	return st, err
}

// goes reports whether the application removes what is at a path.
func (a *Application) goes(p string) bool {
	_, had := a.before[p]
	_, has := a.after[p]
	return had && !has
}

// keptBelow is a path below a directory that the application does not remove;
// empty if there is none.
func (a *Application) keptBelow(dir string) (kept string, err error) {
	err = fs.WalkDir(a.root.FS(), dir, func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() || a.goes(p):
			return nil
		}
		kept = p
		return fs.SkipAll
	})
	return kept, err
}

func (a *Application) digest(ctx context.Context, p string) (_ spec.Digest, err error) {
	dir, err := openDirectory(a.root, path.Dir(p))
	if err != nil {
		return "", err
	}
	defer closing(dir, &err)
	now, err := dir.look(path.Base(p))
	if err == nil && !now.mode.IsRegular() {
		err = errChanged
	}
	if err != nil {
		return "", err
	}
	f, err := dir.openRegular(now, false)
	if err != nil {
		return "", err
	}
	defer closing(f, &err)
	h := sha256.New()
	_, err = storage.Copy(ctx, h, f)
	return digestFrom(h), err
}

// against says how what is there contradicts what was.
func (st standing) against(old Entry, l Landing) string {
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

func sortOfFile(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode&fs.ModeSymlink != 0:
		return "link"
	}
	return kindOf(mode)
}

// Write makes the difference, conflicts or not; a blocked path is an error, before
// anything is written. A path that has come into conflict since it was planned ends
// the writing before it is touched: a person may be at work there. Each file is
// replaced as a whole: after that as after a crash, planning and writing again
// finishes the work.
func (a *Application) Write(ctx context.Context) error {
	if i := slices.IndexFunc(a.Landings, func(l Landing) bool { return l.Blocked }); i >= 0 {
		return fmt.Errorf("%s %s", a.Landings[i].Path, a.Landings[i].Conflict)
	}
	for _, l := range slices.Backward(a.Landings) { // what is in a directory comes before it
		if l.Has || l.Already {
			continue
		}
		if err := a.still(ctx, l); err != nil {
			return err
		}
		if err := a.remove(l.Path); err != nil {
			return err
		}
	}
	for _, l := range a.Landings {
		if !l.Has || l.Already {
			continue
		}
		if err := a.still(ctx, l); err != nil {
			return err
		}
		if err := a.put(ctx, l.Path, a.after[l.Path]); err != nil {
			return fmt.Errorf("write %s: %w", l.Path, err)
		}
	}
	return nil
}

// still refuses a path whose conflict is not the one that it was planned with.
func (a *Application) still(ctx context.Context, planned Landing) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now, err := a.land(ctx, planned.Path)
	if err != nil {
		return fmt.Errorf("look at %s again: %w", planned.Path, err)
	}
	if now.Conflict != "" && now.Conflict != planned.Conflict {
		return fmt.Errorf("%s was changed during the comparison: it %s", planned.Path, now.Conflict)
	}
	return nil
}

// remove removes a file, and the directories that are empty without it.
func (a *Application) remove(p string) error {
	if err := a.root.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if a.root.Remove(dir) != nil {
			break // it holds something else
		}
	}
	return nil
}

// put makes a path what the entry says.
func (a *Application) put(ctx context.Context, p string, e Entry) error {
	if err := a.root.MkdirAll(path.Dir(p), 0o777); err != nil { // as the user's umask has it
		return err
	}
	info, err := a.root.Lstat(p)
	if err == nil && info.IsDir() {
		if err := a.removeEmpty(p); err != nil {
			return err
		}
		info = nil
	}
	// The name is the path's own, so that what a crash leaves is written over.
	temp := path.Join(path.Dir(p), ".maestro-apply-"+string(DigestOf([]byte(p))[:16]))
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
func (a *Application) removeEmpty(dir string) error {
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

// write makes a new file. It gets the permissions of the file that it is to
// replace, as far as they do not say whether it can be executed.
func (a *Application) write(ctx context.Context, name string, e Entry, replaces fs.FileInfo) (err error) {
	src, err := a.store.openBlob(a.store.in, e.SHA256)
	if err != nil {
		return err
	}
	defer src.Close() //nolint:errcheck // only read
	mode := fs.FileMode(0o666)
	if e.Executable {
		mode = 0o777
	}
	dst, err := a.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer closing(dst, &err)
	digest, _, err := copyFile(ctx, dst, src)
	if err != nil {
		return err
	}
	if digest != e.SHA256 {
		return a.store.quarantineBlob(ctx, e.SHA256)
	}
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
}

// kind is what people call an entry of its kind.
func (e Entry) kind() string {
	if e.Link != "" {
		return "a link to " + e.Link
	}
	return "a file"
}
