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
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/bounded"
	"github.com/maestro-hive/maestro/internal/overlayfs"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

const (
	// asideDir has the directories of [Aside]. No namespace has such a name.
	asideDir = ".aside"
	// asideLock is the file in each of them, and in asideDir, that is locked.
	asideLock = "lock"
)

// Aside are directories like an assignment's, for a person. It is a [session.Lock], which
// keeps them until whoever works there is gone.
type Aside struct {
	session.WorkDir
	dirs *Dirs
	lock *os.File
}

// Aside makes such directories, empty, and removes those of processes that were killed.
func (d *Dirs) Aside() (_ *Aside, err error) {
	base := filepath.Join(d.options.Root, asideDir)
	if err := d.makeParents(base); err != nil {
		return nil, fmt.Errorf("make a directory aside: %w", err)
	}
	all, err := lockFile(base, unix.LOCK_EX) // nobody removes what is being made
	if err != nil {
		return nil, err
	}
	defer closing(all, &err)
	if err := d.removeAbandoned(base); err != nil {
		return nil, err
	}
	name := make([]byte, secretBytes)
	_, _ = rand.Read(name) // never fails
	dir := filepath.Join(base, hex.EncodeToString(name))
	a := &Aside{dirs: d, WorkDir: session.WorkDir{Tree: filepath.Join(dir, "tree"), Home: filepath.Join(dir, "home"), Tmp: filepath.Join(dir, "tmp")}}
	if err := errors.Join(d.makeParents(dir), makeAll(a.WorkDir)); err != nil {
		return nil, fmt.Errorf("make a directory aside: %w", err)
	}
	a.lock, err = lockFile(dir, unix.LOCK_EX|unix.LOCK_NB)
	return a, err
}

// lockFile takes the lock of a directory.
func lockFile(dir string, how int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, asideLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// removeAbandoned removes the directories that nobody holds.
func (d *Dirs) removeAbandoned(base string) error {
	dirs, err := filepath.Glob(filepath.Join(base, "*", asideLock))
	for _, file := range dirs {
		lock, busy := lockFile(filepath.Dir(file), unix.LOCK_EX|unix.LOCK_NB)
		if busy != nil {
			continue
		}
		err = errors.Join(err, d.removeAside(filepath.Dir(file)), lock.Close())
	}
	return err
}

func (d *Dirs) removeAside(dir string) (err error) {
	if err := d.forget(filepath.Join(dir, "tree")); err != nil {
		return err
	}
	root, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer closing(root, &err)
	return bounded.RemoveAll(root, filepath.Base(dir))
}

// Fd is the descriptor of the file that is locked.
func (a *Aside) Fd() uintptr { return a.lock.Fd() }

// Unlock lets others remove the directories.
func (a *Aside) Unlock() { _ = unix.Flock(int(a.lock.Fd()), unix.LOCK_UN) }

// Remove removes the directories.
func (a *Aside) Remove() error {
	return errors.Join(a.dirs.removeAside(filepath.Dir(a.Tree)), a.lock.Close())
}

// Lay has the tree show a manifest: layers with nothing above them, held until ctx ends.
func (a *Aside) Lay(ctx context.Context, manifest spec.Digest) (err error) {
	a.WorkDir, err = a.dirs.over(ctx, a.WorkDir, manifest)
	return err
}

// Copy takes over the files and the HOME that an assignment has on this host, where the tree
// is the one that tree names, or may be a later one. Otherwise it is [fs.ErrNotExist], and only
// the HOME is taken over, if there is one. Something may be at work there: nothing is changed
// there, and what vanishes meanwhile is left out. unread counts what could not be read.
func (a *Aside) Copy(ctx context.Context, key session.Key, id spec.AssignmentID, tree spec.Digest) (base spec.Digest, unread int, err error) {
	dir, err := a.dirs.assignmentPath(key, id)
	if err != nil {
		return "", 0, err
	}
	if dir, err = findSecretDir(dir); err != nil {
		return "", 0, err
	}
	from := session.WorkDir{Tree: filepath.Join(dir, "tree"), Home: filepath.Join(dir, "home")}
	was, isLayered := readLayered(from)
	c := copying{ctx: ctx}
	if err := c.all(from.Home, a.Home); err != nil {
		return "", 0, err
	}
	if isLayered && (!a.dirs.HasLayers() || was.Collected != "" && tree != "" && was.Collected != tree) {
		return "", c.unread, fs.ErrNotExist
	}
	if err := c.all(from.Tree, a.Tree); err != nil {
		return "", c.unread, err
	}
	if isLayered {
		return was.Manifest, c.unread, a.Lay(ctx, was.Manifest)
	}
	return "", c.unread, nil
}

// copying copies trees in which something may be at work. No link is followed.
type copying struct {
	ctx    context.Context
	unread int
	depth  int
}

// all copies what is in a directory into another one.
func (c *copying) all(from, to string) (err error) {
	src, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer closing(src, &err)
	dst, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer closing(dst, &err)
	return c.dir(src, dst)
}

// dir copies the entries of a directory, and what the directory is in an overlay.
func (c *copying) dir(src, dst *os.Root) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	f, err := src.Open(".")
	if err != nil {
		return c.skip(err)
	}
	entries, err := f.ReadDir(-1)
	if err == nil {
		err = copyOpaque(f, dst)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, e := range entries {
		if err := c.entry(src, dst, e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// skip ignores what has vanished, and counts what may not be read.
func (c *copying) skip(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENOTDIR):
		return nil
	case errors.Is(err, fs.ErrPermission):
		c.unread++
		return nil
	}
	return err
}

func (c *copying) entry(src, dst *os.Root, name string) error {
	info, err := src.Lstat(name)
	if err != nil {
		return c.skip(err)
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return c.below(src, dst, name, info)
	case mode.IsRegular():
		return c.file(src, dst, name)
	case mode&fs.ModeSymlink != 0:
		target, err := src.Readlink(name)
		if err != nil {
			return c.skip(err)
		}
		return dst.Symlink(target, name)
	case isWhiteout(info):
		return makeWhiteout(dst, name)
	}
	return nil // sockets and pipes are of processes that are not here
}

func (c *copying) below(src, dst *os.Root, name string, info fs.FileInfo) (err error) {
	if c.depth == maxDepth {
		c.unread++
		return nil
	}
	c.depth++
	defer func() { c.depth-- }()
	from, err := src.OpenRoot(name)
	if err != nil {
		return c.skip(err)
	}
	defer closing(from, &err)
	if err := dst.Mkdir(name, privateMode); err != nil {
		return err
	}
	to, err := dst.OpenRoot(name)
	if err != nil {
		return err
	}
	defer closing(to, &err)
	if err := c.dir(from, to); err != nil {
		return err
	}
	return errors.Join(dst.Chmod(name, info.Mode().Perm()|0o700), dst.Chtimes(name, info.ModTime(), info.ModTime()))
}

func (c *copying) file(src, dst *os.Root, name string) (err error) {
	from, err := src.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return c.skip(err)
	}
	defer closing(from, &err)
	info, err := from.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	to, err := dst.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer closing(to, &err)
	if _, err := to.ReadFrom(from); err != nil { // shares blocks where the file system can
		return err
	}
	return errors.Join(to.Chmod(info.Mode().Perm()), dst.Chtimes(name, info.ModTime(), info.ModTime()))
}

func isWhiteout(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && overlayfs.IsWhiteout(info.Mode(), st.Rdev)
}

// makeWhiteout makes an entry that says that a path of the layers below is removed.
func makeWhiteout(dst *os.Root, name string) (err error) {
	dir, err := dst.Open(".")
	if err != nil {
		return err
	}
	defer closing(dir, &err)
	return overlayfs.MakeWhiteout(int(dir.Fd()), name)
}

// copyOpaque copies the mark of a directory that hides what the layers below it have.
func copyOpaque(src *os.File, dst *os.Root) (err error) {
	if is, err := overlayfs.IsOpaque(src); !is {
		return err
	}
	dir, err := dst.Open(".")
	if err != nil {
		return err
	}
	defer closing(dir, &err)
	return overlayfs.MakeOpaque(dir)
}
