package layers

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/failpoint"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// lower returns the first of the similar trees near whose whole layer the tree only adds to or changes
// in part, and what it adds and changes; nil if there is none. It must be released.
func (l *Layers) lower(ctx context.Context, want *cas.Tree, near []spec.Digest) (*Stack, cas.Manifest, error) {
	for _, digest := range near {
		if !digest.Valid() {
			continue
		}
		s, err := l.acquireExisting(digest)
		if s == nil || err != nil { // the layer can be made without it
			continue
		}
		if changed, err := l.changed(ctx, s.bottom.Manifest, want); changed != nil && err == nil {
			return s, changed, nil
		}
		if err := errors.Join(ctx.Err(), s.Release()); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, ctx.Err()
}

// changed returns the files that a tree adds to another one and changes in it; nil if it removes
// some, or changes more than half.
func (l *Layers) changed(ctx context.Context, from spec.Digest, want *cas.Tree) (cas.Manifest, error) {
	tree, err := l.o.Files.Tree(ctx, from)
	if err != nil {
		return nil, err
	}
	diff, err := cas.Diff(ctx, tree, want)
	if err != nil || len(diff) > want.Files()/2 || len(diff.Deleted()) > 0 {
		return nil, err
	}
	changed := cas.Manifest{}
	for p, c := range diff {
		changed[p] = c.Entry
	}
	return changed, nil
}

// builder makes a layer in a temporary directory.
type builder struct {
	*Layers
	dir  string
	tree string
	note layer
}

// build makes the layer of a manifest. If another process makes it first, the stack is nil.
func (l *Layers) build(ctx context.Context, manifest spec.Digest, near []spec.Digest) (_ *Stack, err error) {
	want, err := l.o.Files.Tree(ctx, manifest)
	if err != nil {
		return nil, err
	}
	below, changed, err := l.lower(ctx, want, near)
	if err != nil {
		return nil, err
	}
	m := &builder{Layers: l, note: layer{ID: rand.Text(), Boot: l.boot, Manifest: manifest}}
	s := &Stack{Dirs: []string{filepath.Join(l.path(l.nameOf(manifest)), treeDir)}}
	if below != nil {
		// Held until the layer exists: a layer keeps the one below it from removal.
		defer func() { err = errors.Join(err, below.Release()) }()
		want = l.o.Files.TreeOf(changed)
		m.note.Below, m.note.BelowID = l.nameOf(below.bottom.Manifest), below.bottom.ID
		s.Dirs = append(s.Dirs, below.Dirs[len(below.Dirs)-1])
	}
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
	if m.note.Bytes, err = l.o.Files.Fill(ctx, want, m.tree, l.o.Owner); err == nil {
		failpoint.Here("layers: filled")
		made, err = m.publish()
	}
	if !made {
		return nil, err
	}
	s.bottom, s.lock = m.note, lock
	if below != nil {
		s.bottom = below.bottom
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
	return lock, mkdir(m.tree, treeMode)
}

// mkdir makes a directory with this mode, whatever the umask is.
func mkdir(dir string, mode fs.FileMode) error {
	return errors.Join(os.Mkdir(dir, mode), os.Chmod(dir, mode))
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
	err = m.withRootLock(shared, func() error { return os.Rename(m.dir, m.path(m.nameOf(m.note.Manifest))) })
	if errors.Is(err, fs.ErrExist) { // another process was first
		return false, nil
	}
	failpoint.Here("layers: published")
	return err == nil, err
}
