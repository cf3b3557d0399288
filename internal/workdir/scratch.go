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
	// scratchDir has the directories of [Scratch]. No namespace can have this name.
	scratchDir = ".scratch"
	// scratchLock is the lock file in each of them, and in scratchDir.
	scratchLock = "lock"
)

// Scratch is a set of directories like an assignment's, for a person's shell. It is a
// [session.Lock]: the directories are kept until all holders of the lock have ended.
type Scratch struct {
	session.WorkDir
	dirs *Dirs
	lock *os.File
	// release ends the use of the layers; nil: there are none.
	release func()
}

// NewScratch makes empty scratch directories, and removes those of processes that were killed.
func (d *Dirs) NewScratch() (_ *Scratch, err error) {
	base := filepath.Join(d.options.Root, scratchDir)
	if err := d.makeParents(base); err != nil {
		return nil, fmt.Errorf("make a scratch directory: %w", err)
	}
	all, err := lockFile(base, unix.LOCK_EX) // so that no other process removes it before it is locked
	if err != nil {
		return nil, err
	}
	defer closing(all, &err)
	if err := d.removeAbandonedIn(base); err != nil {
		return nil, err
	}
	name := make([]byte, secretBytes)
	_, _ = rand.Read(name) // never fails
	dir := filepath.Join(base, hex.EncodeToString(name))
	a := &Scratch{dirs: d, WorkDir: session.WorkDir{Tree: filepath.Join(dir, "tree"), Home: filepath.Join(dir, "home"), Tmp: filepath.Join(dir, "tmp")}}
	if err := errors.Join(d.makeParents(dir), makeAll(a.WorkDir)); err != nil {
		return nil, fmt.Errorf("make a scratch directory: %w", err)
	}
	a.lock, err = lockFile(dir, unix.LOCK_EX|unix.LOCK_NB)
	return a, err
}

// lockFile takes the lock of a directory.
func lockFile(dir string, how int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, scratchLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// RemoveAbandoned removes the scratch directories of killed processes.
func (d *Dirs) RemoveAbandoned() (err error) {
	base := filepath.Join(d.options.Root, scratchDir)
	if _, err := os.Lstat(base); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	all, err := lockFile(base, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer closing(all, &err)
	return d.removeAbandonedIn(base)
}

// removeAbandonedIn removes the directories whose lock is free. The caller holds the lock of
// base, so no new one is made meanwhile.
func (d *Dirs) removeAbandonedIn(base string) error {
	entries, err := os.ReadDir(base)
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		if !e.IsDir() {
			continue
		}
		lock, busy := lockFile(dir, unix.LOCK_EX|unix.LOCK_NB) // a process killed early has made no lock file
		if busy != nil {
			continue
		}
		err = errors.Join(err, d.removeScratch(dir), lock.Close())
	}
	return err
}

func (d *Dirs) removeScratch(dir string) (err error) {
	root, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer closing(root, &err)
	return bounded.RemoveAll(root, filepath.Base(dir))
}

// Fd returns the descriptor of the lock file.
func (a *Scratch) Fd() uintptr { return a.lock.Fd() }

// Unlock permits other processes to remove the directories.
func (a *Scratch) Unlock() { _ = unix.Flock(int(a.lock.Fd()), unix.LOCK_UN) }

// Remove removes the directories.
func (a *Scratch) Remove() error {
	return errors.Join(a.dirs.removeScratch(filepath.Dir(a.Tree)), a.lock.Close())
}

// UseLayers makes the tree show a manifest: layers with nothing above them, held until
// [Scratch.ReleaseLayers] is called.
func (a *Scratch) UseLayers(ctx context.Context, manifest spec.Digest) (err error) {
	a.WorkDir, a.release, err = a.dirs.addLayers(ctx, a.WorkDir, manifest)
	return err
}

// ReleaseLayers permits the removal of the layers. No process may use them any more.
func (a *Scratch) ReleaseLayers() {
	if a.release != nil {
		a.release()
	}
}

// Copy copies the files and the HOME that an assignment has on this host. If its files are known
// to be another tree than tree, or need layers that d does not have, it copies only the HOME and
// returns [fs.ErrNotExist]; so it does if there are none. An agent may be at work there, and
// files that vanish meanwhile are left out. base is the manifest of the files' layers; empty:
// there are none. unread counts the entries that could not be read.
func (a *Scratch) Copy(ctx context.Context, key session.Key, id spec.AssignmentID, tree spec.Digest) (base spec.Digest, unread int, err error) {
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
		return was.Manifest, c.unread, a.UseLayers(ctx, was.Manifest)
	}
	return "", c.unread, nil
}

// copying copies trees that a process may change meanwhile. It follows no link.
type copying struct {
	ctx    context.Context
	unread int
	depth  int
}

// all copies the content of a directory into another one.
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

// dir copies the entries of a directory, and its opaque mark in an overlay.
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

// skip ignores the error of an entry that has vanished, and counts one that may not be read.
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
	return nil // sockets and pipes are useless without their processes
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

// makeWhiteout makes an entry that marks a path of the layers below as removed.
func makeWhiteout(dst *os.Root, name string) (err error) {
	dir, err := dst.Open(".")
	if err != nil {
		return err
	}
	defer closing(dir, &err)
	return overlayfs.MakeWhiteout(int(dir.Fd()), name)
}

// copyOpaque copies the mark of a directory that hides the entries of the layers below it.
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
