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

// similar is a tree that has layers.
type similar struct {
	*Stack
	tree *cas.Tree
	// changes is how many files differ from the wanted tree.
	changes int
}

// release permits the removal of the layers.
func (s *similar) release() error {
	if s == nil {
		return nil
	}
	return s.Release()
}

// recentlyUsed is how many recently used layers are compared with a tree.
const recentlyUsed = 4

// nearest returns the most similar tree that has layers; nil if none has a file in common with
// the tree. It must be released.
func (l *Layers) nearest(ctx context.Context, want *cas.Tree, near []spec.Digest) (best *similar, err error) {
	best, enough, err := l.nearestAmong(ctx, want, near, nil)
	if err != nil || enough {
		return best, err
	}
	recent, err := l.recent(recentlyUsed) // reads the notes of all layers
	if err != nil {
		return nil, errors.Join(err, best.release())
	}
	best, _, err = l.nearestAmong(ctx, want, recent, best)
	return best, err
}

// nearestAmong returns the most similar of some trees and of the best so far. It releases the
// others. enough: a more similar tree would save little.
func (l *Layers) nearestAmong(ctx context.Context, want *cas.Tree, among []spec.Digest, best *similar) (_ *similar, enough bool, err error) {
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
		// A tree that cannot be read is ignored.
		if s.changes, err = cas.Distance(ctx, s.tree, want, least); err == nil && s.changes < least {
			best, s, least = s, best, s.changes
		}
		if err := s.release(); err != nil {
			return nil, false, errors.Join(err, best.release())
		}
		if least <= 16+want.Files()/64 { // comparing another tree costs more than it can save
			return best, true, nil
		}
	}
	return best, false, nil
}

// candidate acquires a tree that may be similar; nil if it cannot be used. Errors are those of the context only.
func (l *Layers) candidate(ctx context.Context, digest spec.Digest) (*similar, error) {
	if !digest.Valid() {
		return nil, ctx.Err()
	}
	s, err := l.acquireExisting(digest)
	if s == nil || err != nil {
		return nil, ctx.Err()
	}
	tree, err := l.o.Files.Tree(ctx, digest)
	if err != nil {
		return nil, errors.Join(ctx.Err(), s.Release())
	}
	return &similar{Stack: s, tree: tree}, nil
}

// builder makes a layer in a temporary directory.
type builder struct {
	*Layers
	dir  string
	tree string
	want *cas.Tree
	note layer
}

// build makes the layer of a manifest. If another process makes it first, the stack is nil.
func (l *Layers) build(ctx context.Context, manifest spec.Digest, near []spec.Digest) (_ *Stack, err error) {
	want, err := l.o.Files.Tree(ctx, manifest)
	if err != nil {
		return nil, err
	}
	below, err := l.nearest(ctx, want, near)
	if err != nil {
		return nil, err
	}
	// Held until the layer exists: a layer keeps those below it from removal.
	defer func() { err = errors.Join(err, below.release()) }()
	m := &builder{Layers: l, want: want, note: layer{ID: rand.Text(), Boot: l.boot, Manifest: manifest}}
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
		if err = m.reset(); err == nil {
			err = m.fillWhole(ctx)
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

// begin makes the temporary directory. It is not removed while it is locked.
func (m *builder) begin() (lock *os.File, err error) {
	name := filepath.Join(tempDir, m.note.ID)
	m.dir = m.path(name)
	m.tree = filepath.Join(m.dir, treeDir)
	err = m.withRootLock(shared, func() error {
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
func (m *builder) mkdir(dir string) error {
	if err := mkdir(dir, treeMode); err != nil {
		return err
	}
	return m.o.Owner.Chown(dir)
}

// mkdir makes a directory with this mode, whatever the umask is.
func mkdir(dir string, mode fs.FileMode) error {
	return errors.Join(os.Mkdir(dir, mode), os.Chmod(dir, mode))
}

func (m *builder) reset() error {
	return errors.Join(os.RemoveAll(m.tree), m.mkdir(m.tree))
}

// fill writes the difference to the layers below, or the whole tree if they have MaxDepth.
func (m *builder) fill(ctx context.Context, below *similar) error {
	if below == nil || len(below.Dirs) >= m.o.MaxDepth {
		return m.fillWhole(ctx)
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
	if m.note.Bytes, err = m.o.Files.Fill(ctx, m.o.Files.TreeOf(changed), m.tree, m.o.Owner); err != nil {
		return err
	}
	failpoint.Here("layers: filled")
	m.note.Below, m.note.BelowID = m.nameOf(below.manifest), below.top.ID
	return m.addWhiteouts(ctx, diff)
}

var errNoWhiteouts = errors.New("no whiteouts can be made here")

// addWhiteouts makes whiteouts for the paths that the tree no longer has: one for a whole
// directory. A path at which the tree has another entry needs none.
func (m *builder) addWhiteouts(ctx context.Context, diff cas.Delta) error {
	gone := map[string]struct{}{}
	for _, p := range diff.Deleted() {
		top, err := m.topmostRemoved(ctx, p)
		if err != nil {
			return err
		}
		if top != "" {
			gone[top] = struct{}{}
		}
	}
	for _, p := range slices.Sorted(maps.Keys(gone)) {
		if err := m.makeParents(path.Dir(p)); err != nil {
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

// topmostRemoved returns the topmost path that the tree no longer has, among a removed file and
// its parent directories; empty: the tree has another entry there.
func (m *builder) topmostRemoved(ctx context.Context, p string) (string, error) {
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

// makeParents makes a directory of a whiteout, and its parents.
func (m *builder) makeParents(dir string) error {
	if dir == "." {
		return nil
	}
	if err := m.makeParents(path.Dir(dir)); err != nil {
		return err
	}
	if err := m.mkdir(filepath.Join(m.tree, dir)); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// fillWhole writes the whole tree.
func (m *builder) fillWhole(ctx context.Context) (err error) {
	m.note.Below, m.note.BelowID = "", ""
	m.note.Bytes, err = m.o.Files.Fill(ctx, m.want, m.tree, m.o.Owner)
	failpoint.Here("layers: filled")
	return err
}

// publish renames the layer to its name. made is false if another process was first.
func (m *builder) publish() (made bool, err error) {
	if m.note.Stamp, err = stampOf(m.tree); err != nil {
		return false, err
	}
	if err := m.note.writeNote(m.dir); err != nil {
		return false, err
	}
	now := m.o.Now()
	if err := os.Chtimes(m.dir, now, now); err != nil {
		return false, err
	}
	failpoint.Here("layers: made")
	err = m.withRootLock(shared, func() error { return os.Rename(m.dir, m.path(m.nameOf(m.note.Manifest))) })
	if errors.Is(err, fs.ErrExist) { // another process was first
		return false, nil
	}
	failpoint.Here("layers: published")
	return err == nil, err
}
