package layers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/sandbox/proctree"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// defaultBytes is the default of [Options.MaxBytes]: 10 GB.
const defaultBytes int64 = 10_000_000_000

const (
	// dirMode permits other users to use a layer whose name they have, but not to list the layers.
	dirMode  fs.FileMode = 0o711
	treeMode fs.FileMode = 0o755
	ownMode  fs.FileMode = 0o700
	// treeDir holds a layer's files, in the layer's directory.
	treeDir = "tree"
	tempDir = "tmp"
	// nameDigits is how many digits of a digest name a layer, before its owner.
	nameDigits = 32
)

// Options are the settings of [New].
type Options struct {
	// Root is the directory of the layers. It is made if it does not exist. It must not be on an overlay.
	Root string
	// Files has the trees.
	Files *cas.Store
	// Owner is the owner of the layers' files; nil: this process's user. Each owner has layers of
	// its own.
	Owner *cas.Owner
	// MaxBytes is the size of all layers above which [Layers.Collect] removes unused ones; zero: 10 GB.
	MaxBytes int64
	// Now returns the time. Required.
	Now func() time.Time
}

// Layers are the layers of one root. Many goroutines and processes may use them.
type Layers struct {
	o    Options
	boot string
	// owner is UID.GID of the files' owner, the end of the layers' names.
	owner string
	// building is held while this process makes a layer.
	building sync.Mutex
}

// New opens the layers below a root.
func New(o Options) (*Layers, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultBytes
	}
	l, err := openRoot(o)
	if err != nil {
		return nil, err
	}
	for dir, mode := range map[string]fs.FileMode{l.o.Root: dirMode, l.path(tempDir): ownMode} {
		if err := errors.Join(os.MkdirAll(dir, dirMode), os.Chmod(dir, mode)); err != nil {
			return nil, fmt.Errorf("make the directory of layers: %w", err)
		}
	}
	owner := o.Owner
	if owner == nil {
		owner = &cas.Owner{UID: os.Geteuid(), GID: os.Getegid()}
	}
	l.owner = fmt.Sprintf("%d.%d", owner.UID, owner.GID)
	return l, nil
}

// openRoot opens the layers of a root. It writes nothing.
func openRoot(o Options) (*Layers, error) {
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return nil, err
	}
	o.Root = root
	id, err := proctree.BootID()
	if err != nil {
		return nil, fmt.Errorf("read the boot id of the host: %w", err)
	}
	return &Layers{o: o, boot: id}, nil
}

// Stack is a manifest's tree in layers. It must be released.
type Stack struct {
	// Dirs are the directories whose union is the tree, the topmost first. They are below
	// the root and must not be changed.
	Dirs []string

	// bottom is the layer with a whole tree.
	bottom layer
	lock   *os.File
}

// Release permits the removal of the layers.
func (s *Stack) Release() error {
	if err := unlock(s.lock); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// nameOf returns the name of a manifest's layer for this owner.
func (l *Layers) nameOf(manifest spec.Digest) string { return prefixOf(manifest) + l.owner }

func prefixOf(manifest spec.Digest) string { return string(manifest[:nameDigits]) + "-" }

func (l *Layers) path(name string) string { return filepath.Join(l.o.Root, name) }

// Acquire returns a manifest's tree in layers. They are not removed until the stack is released.
// If its layer does not exist, it is made: on top of the whole layer of one of the similar trees near
// if the tree only adds to it or changes a part of it. The store is read only in this case.
func (l *Layers) Acquire(ctx context.Context, manifest spec.Digest, near ...spec.Digest) (*Stack, error) {
	if !manifest.Valid() {
		return nil, fmt.Errorf("%q is not the digest of a manifest", manifest)
	}
	if s, err := l.acquireExisting(manifest); s != nil || err != nil {
		return s, err
	}
	l.building.Lock()
	defer l.building.Unlock()
	const tries = 10 // a layer that another process made may be removed before it is locked
	for range tries {
		if s, err := l.acquireExisting(manifest); s != nil || err != nil {
			return s, err
		}
		s, err := l.build(ctx, manifest, near)
		if err != nil {
			return nil, fmt.Errorf("make layers of tree %s: %w", manifest.Short(), err)
		}
		if s != nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("make layers of tree %s: other processes made and removed them %d times", manifest.Short(), tries)
}

// acquireExisting returns the stack of a manifest; nil if its layers do not exist.
func (l *Layers) acquireExisting(manifest spec.Digest) (*Stack, error) {
	name := l.nameOf(manifest)
	lock, err := l.open(name, shared)
	if err != nil || lock == nil {
		return nil, err
	}
	s := &Stack{lock: lock}
	top, err := l.readNote(name)
	if err == nil && top.Manifest == manifest {
		s.Dirs, s.bottom, err = l.stack(name, top)
	}
	if err != nil || s.Dirs == nil {
		_ = unlock(lock)
		return nil, l.discard(name)
	}
	now := l.o.Now()
	if err := os.Chtimes(l.path(name), now, now); err != nil {
		_ = unlock(lock)
		return nil, err
	}
	return s, nil
}

// stack lists the directories of a layer and of the one below it, if both are as they were made, and
// returns the lowest layer.
func (l *Layers) stack(name string, top layer) (dirs []string, bottom layer, err error) {
	if err := l.unchanged(name, top); err != nil {
		return nil, top, err
	}
	dirs = []string{filepath.Join(l.path(name), treeDir)}
	if top.Below == "" {
		return dirs, top, nil
	}
	bottom, err = l.readNote(top.Below)
	if err == nil && (bottom.ID != top.BelowID || bottom.Below != "") {
		err = errNoLayer
	}
	if err == nil {
		err = l.unchanged(top.Below, bottom)
	}
	return append(dirs, filepath.Join(l.path(top.Below), treeDir)), bottom, err
}
