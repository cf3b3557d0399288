package layers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/overlayfs"
	"github.com/maestro-hive/maestro/internal/spec"
)

// similar is a tree that there are layers of.
type similar struct {
	*Stack
	tree *cas.Tree
	// changes is how many files of another tree differ.
	changes int
}

// release lets the layers be removed.
func (s *similar) release() error {
	if s == nil {
		return nil
	}
	return s.Release()
}

// recentlyUsed is how many of the layers that were used last are compared with a tree.
const recentlyUsed = 4

// nearest returns the most similar tree of those that there are layers of; nil if none has
// anything in common with the tree. It must be released.
func (l *Layers) nearest(ctx context.Context, want *cas.Tree, near []spec.Digest) (best *similar, err error) {
	best, enough, err := l.nearer(ctx, want, near, nil)
	if err != nil || enough {
		return best, err
	}
	recent, err := l.recent(recentlyUsed) // reads the notes of all layers
	if err != nil {
		return nil, errors.Join(err, best.release())
	}
	best, _, err = l.nearer(ctx, want, recent, best)
	return best, err
}

// nearer returns the most similar of some trees and of the best so far, which is released if it
// is not that. enough: others can save little.
func (l *Layers) nearer(ctx context.Context, want *cas.Tree, among []spec.Digest, best *similar) (_ *similar, enough bool, err error) {
	for _, digest := range among {
		s, err := l.candidate(ctx, digest)
		if err != nil {
			return nil, false, errors.Join(err, best.release())
		}
		if s == nil {
			continue
		}
		least := want.Files()
		if best != nil {
			least = best.changes
		}
		// One that cannot be read is none.
		if s.changes, err = cas.Distance(ctx, s.tree, want, least); err == nil && s.changes < least {
			best, s, least = s, best, s.changes
		}
		if err := s.release(); err != nil {
			return nil, false, errors.Join(err, best.release())
		}
		if least <= 16+want.Files()/64 { // each of the rest costs a look at what differs
			return best, true, nil
		}
	}
	return best, false, nil
}

// candidate holds a tree that may be similar; nil if it cannot be used, for whatever reason.
func (l *Layers) candidate(ctx context.Context, digest spec.Digest) (*similar, error) {
	if !digest.Valid() {
		return nil, ctx.Err()
	}
	s, err := l.hold(digest)
	if s == nil || err != nil {
		return nil, ctx.Err()
	}
	tree, err := l.o.Files.Tree(ctx, digest)
	if err != nil {
		return nil, errors.Join(ctx.Err(), s.Release())
	}
	return &similar{Stack: s, tree: tree}, nil
}

// making is a layer that is being made, in a temporary directory.
type making struct {
	*Layers
	dir  string
	tree string
	want *cas.Tree
	note layer
}

// make makes the layer of a manifest. If another process makes it first, the stack is nil.
func (l *Layers) make(ctx context.Context, manifest spec.Digest, near []spec.Digest) (_ *Stack, err error) {
	want, err := l.o.Files.Tree(ctx, manifest)
	if err != nil {
		return nil, err
	}
	below, err := l.nearest(ctx, want, near)
	if err != nil {
		return nil, err
	}
	// Held until the layer is there: then it keeps those below it.
	defer func() { err = errors.Join(err, below.release()) }()
	m := &making{Layers: l, want: want, note: layer{ID: rand.Text(), Boot: l.boot, Manifest: manifest}}
	lock, err := m.begin()
	if err != nil {
		return nil, err
	}
	made := false
	defer func() {
		if !made {
			err = errors.Join(err, os.RemoveAll(m.dir), unlock(lock))
		}
	}()
	err = m.fill(ctx, below)
	if errors.Is(err, errNoWhiteouts) {
		if err = m.clear(); err == nil {
			err = m.whole(ctx, below)
		}
	}
	if err == nil {
		made, err = m.publish()
	}
	if !made {
		return nil, err
	}
	s := &Stack{Dirs: []string{filepath.Join(l.path(l.nameOf(manifest)), treeDir)}, manifest: manifest, top: m.note, lock: lock}
	if m.note.Below != "" {
		s.Dirs = append(s.Dirs, below.Dirs...)
	}
	return s, nil
}

// begin makes the temporary directory. While it is locked, nobody removes it.
func (m *making) begin() (lock *os.File, err error) {
	name := filepath.Join(tempDir, m.note.ID)
	m.dir = m.path(name)
	m.tree = filepath.Join(m.dir, treeDir)
	err = m.locked(shared, func() error {
		if err := mkdir(m.dir, dirMode); err != nil {
			return err
		}
		lock, err = m.open(name, shared)
		return err
	})
	if err != nil {
		return nil, err
	}
	failpoint.Here("layers: begun")
	return lock, m.mkdir(m.tree)
}

// mkdir makes a directory of a layer's tree.
func (m *making) mkdir(dir string) error {
	if err := mkdir(dir, treeMode); err != nil {
		return err
	}
	return m.o.Owner.Chown(dir)
}

// mkdir makes a directory whose mode no umask changes.
func mkdir(dir string, mode fs.FileMode) error {
	return errors.Join(os.Mkdir(dir, mode), os.Chmod(dir, mode))
}

func (m *making) clear() error {
	return errors.Join(os.RemoveAll(m.tree), m.mkdir(m.tree))
}

// fill writes what differs from the layers below, or all if they are deep enough.
func (m *making) fill(ctx context.Context, below *similar) error {
	if below == nil || len(below.Dirs) >= m.o.MaxDepth {
		return m.whole(ctx, below)
	}
	diff, err := cas.Diff(ctx, below.tree, m.want)
	if err != nil {
		return err
	}
	changed := cas.Manifest{}
	for p, c := range diff {
		if !c.Deleted {
			changed[p] = c.Entry
		}
	}
	if m.note.Bytes, err = m.o.Files.Fill(ctx, m.o.Files.TreeOf(changed), m.tree, m.o.Owner, nil); err != nil {
		return err
	}
	failpoint.Here("layers: filled")
	m.note.Below, m.note.BelowID = m.nameOf(below.manifest), below.top.ID
	return m.remove(ctx, diff)
}

var errNoWhiteouts = errors.New("no whiteouts can be made here")

// remove makes whiteouts for what the tree no longer has. Directories that it no longer has
// are removed as a whole. What a file or directory has taken the place of needs none.
func (m *making) remove(ctx context.Context, diff cas.Delta) error {
	gone := map[string]struct{}{}
	for _, p := range diff.Deleted() {
		top, err := m.removed(ctx, p)
		if err != nil {
			return err
		}
		if top != "" {
			gone[top] = struct{}{}
		}
	}
	for _, p := range slices.Sorted(maps.Keys(gone)) {
		if err := m.above(path.Dir(p)); err != nil {
			return err
		}
		err := overlayfs.MakeWhiteout(unix.AT_FDCWD, filepath.Join(m.tree, p))
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EINVAL) {
			return errNoWhiteouts
		}
		if err != nil {
			return fmt.Errorf("remove %q in a layer: %w", p, err)
		}
		failpoint.Here("layers: removed")
	}
	return nil
}

// removed is the topmost path that the tree no longer has, of a file that it no longer has and
// of the directories that this was in; empty: something has taken its place.
func (m *making) removed(ctx context.Context, p string) (string, error) {
	if has, err := m.want.HasDir(ctx, p); has || err != nil {
		return "", err
	}
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		has, err := m.want.HasDir(ctx, dir)
		if err != nil {
			return "", err
		}
		if has {
			break
		}
		p = dir
	}
	if _, has, err := m.want.Get(ctx, p); has || err != nil {
		return "", err
	}
	return p, nil
}

// above makes the directories on the way to what is removed.
func (m *making) above(dir string) error {
	if dir == "." {
		return nil
	}
	if err := m.above(path.Dir(dir)); err != nil {
		return err
	}
	if err := m.mkdir(filepath.Join(m.tree, dir)); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// whole writes the whole tree. What other layers hold already is linked.
func (m *making) whole(ctx context.Context, other *similar) (err error) {
	m.note.Below, m.note.BelowID = "", ""
	var link func(p string) bool
	if other != nil {
		held, err := holdings(other.Dirs)
		if err != nil {
			return err
		}
		differs, err := cas.Diff(ctx, other.tree, m.want)
		if err != nil {
			return err
		}
		link = func(p string) bool {
			from, ok := held[p]
			if _, other := differs[p]; other || !ok {
				return false
			}
			failpoint.Here("layers: linked")
			return os.Link(filepath.Join(from, p), filepath.Join(m.tree, p)) == nil
		}
	}
	m.note.Bytes, err = m.o.Files.Fill(ctx, m.want, m.tree, m.o.Owner, link)
	failpoint.Here("layers: filled")
	return err
}

// holdings finds the topmost directory that holds each file of a stack.
func holdings(dirs []string) (map[string]string, error) {
	held := map[string]string{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			if p, err = filepath.Rel(dir, p); err != nil {
				return err
			}
			if _, ok := held[p]; !ok {
				held[p] = dir
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return held, nil
}

// publish gives the layer its name, unless somebody else was first.
func (m *making) publish() (made bool, err error) {
	if err := m.note.write(m.dir); err != nil {
		return false, err
	}
	now := m.o.Now()
	if err := os.Chtimes(m.dir, now, now); err != nil {
		return false, err
	}
	failpoint.Here("layers: made")
	err = m.locked(shared, func() error { return os.Rename(m.dir, m.path(m.nameOf(m.note.Manifest))) })
	if errors.Is(err, fs.ErrExist) { // somebody was
		return false, nil
	}
	failpoint.Here("layers: published")
	return err == nil, err
}
