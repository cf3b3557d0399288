// Package layers keeps trees once per host as read-only layers by the digests of their
// manifests, for overlays of which they are the lower directories.
//
// A layer holds what differs from the one below it, with whiteouts for what is removed, or
// a whole tree. It is made in a temporary directory and renamed, so that it exists as a whole
// or not at all, whatever is killed. Nothing is flushed: layers made before the last start of
// the host, which a power loss may have torn, are not used and are removed.
//
// Several processes may share one root. A shared flock on its directory keeps a layer, and
// all that are below it, from removal.
package layers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Defaults of [Options].
const (
	// DefaultBytes is 10 GB.
	DefaultBytes int64 = 10_000_000_000
	// DefaultDepth keeps the names of a stack within the page that mount(2) takes.
	DefaultDepth = 16
)

const (
	// dirMode lets those pass who may use a layer, but not list the layers.
	dirMode  fs.FileMode = 0o711
	treeMode fs.FileMode = 0o755
	ownMode  fs.FileMode = 0o700
	// treeDir holds a layer's files, in the layer's directory.
	treeDir = "tree"
	tempDir = "tmp"
	// nameDigits is how many digits of a digest name a layer, before its owner.
	nameDigits = 32
)

// Files is where the trees come from: a [*cas.Store].
type Files interface {
	// Tree opens a tree.
	Tree(ctx context.Context, name spec.Digest) (*cas.Tree, error)
	// TreeOf makes a tree of files and links.
	TreeOf(m cas.Manifest) *cas.Tree
	// Fill writes a tree for its owner into an empty directory, verified, except the files that
	// instead makes, and returns what it takes up there, in bytes.
	Fill(ctx context.Context, t *cas.Tree, dir string, o *cas.Owner, instead func(p string) bool) (int64, error)
}

// Options says where layers are, and how many.
type Options struct {
	// Root is the directory of the layers, made if need be. It must not be on an overlay.
	Root  string
	Files Files
	// Owner is who is to use the layers' trees; nil: the caller. Those of others are other
	// layers.
	Owner *cas.Owner
	// MaxBytes is how much of the disk unused layers may keep; zero: [DefaultBytes].
	MaxBytes int64
	// MaxDepth is how many layers are stacked; zero: [DefaultDepth].
	MaxDepth int
	// Now tells the time.
	Now func() time.Time
}

// Layers are those of one root. They may be used by many goroutines and processes.
type Layers struct {
	o    Options
	boot string
	// owner names who has the trees.
	owner string
	// making are the manifests that this process makes layers of.
	making keyedLock
}

// New opens the layers below a root.
func New(o Options) (*Layers, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultBytes
	}
	if o.MaxDepth <= 0 {
		o.MaxDepth = DefaultDepth
	}
	o.MaxDepth = min(o.MaxDepth, maxChain)
	l, err := existing(o)
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

// existing opens layers to look at them: it makes nothing.
func existing(o Options) (*Layers, error) {
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return nil, err
	}
	o.Root = root
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("find out when the host was started: %w", err)
	}
	return &Layers{o: o, boot: strings.TrimSpace(string(boot))}, nil
}

// Stack is a manifest's tree in layers. It must be released.
type Stack struct {
	// Dirs are the directories whose union is the tree, the topmost first. They are below
	// the root and must not be changed.
	Dirs []string

	manifest spec.Digest
	top      layer
	lock     *os.File
}

// Release lets the layers be removed.
func (s *Stack) Release() error {
	if err := unlock(s.lock); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// nameOf is the name of a manifest's layer for this owner.
func (l *Layers) nameOf(manifest spec.Digest) string { return prefixOf(manifest) + l.owner }

func prefixOf(manifest spec.Digest) string { return string(manifest[:nameDigits]) + "-" }

func (l *Layers) path(name string) string { return filepath.Join(l.o.Root, name) }

// Acquire returns a manifest's tree in layers, which nobody removes until it is released. If
// the layers are not there, they are made over those of the most similar tree among near and
// the ones that were used last. Errors are those of reading the store, which is not read if
// the layers are there.
func (l *Layers) Acquire(ctx context.Context, manifest spec.Digest, near ...spec.Digest) (*Stack, error) {
	if !manifest.Valid() {
		return nil, fmt.Errorf("%q is not the digest of a manifest", manifest)
	}
	if s, err := l.hold(manifest); s != nil || err != nil {
		return s, err
	}
	unlock, err := l.making.lock(ctx, manifest)
	if err != nil {
		return nil, err
	}
	defer unlock()
	const tries = 10 // what another process makes may be removed before it is held
	for range tries {
		if s, err := l.hold(manifest); s != nil || err != nil {
			return s, err
		}
		s, err := l.make(ctx, manifest, near)
		if err != nil {
			return nil, fmt.Errorf("make layers of tree %s: %w", manifest.Short(), err)
		}
		if s != nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("layers of tree %s were removed as soon as others had made them", manifest.Short())
}

// hold returns the stack of a manifest if its layers are there; nil if not.
func (l *Layers) hold(manifest spec.Digest) (*Stack, error) {
	name := l.nameOf(manifest)
	lock, err := l.open(name, shared)
	if err != nil || lock == nil {
		return nil, err
	}
	s := &Stack{manifest: manifest, lock: lock}
	if s.top, err = l.read(name); err == nil && s.top.Manifest == manifest {
		s.Dirs, err = l.chain(name, s.top)
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

// maxChain bounds what is followed. More layers are never stacked.
const maxChain = 64

// chain lists the directories of a layer and of those below it.
func (l *Layers) chain(name string, top layer) ([]string, error) {
	dirs := []string{filepath.Join(l.path(name), treeDir)}
	for id, below := top.BelowID, top.Below; below != ""; {
		at, err := l.read(below)
		if err != nil {
			return nil, err
		}
		if at.ID != id || len(dirs) > maxChain {
			return nil, errNoLayer
		}
		dirs = append(dirs, filepath.Join(l.path(below), treeDir))
		id, below = at.BelowID, at.Below
	}
	return dirs, nil
}

// keyedLock is a lock for each digest.
type keyedLock struct {
	mu   sync.Mutex
	held map[spec.Digest]chan struct{}
}

func (k *keyedLock) lock(ctx context.Context, key spec.Digest) (unlock func(), err error) {
	for {
		k.mu.Lock()
		busy, held := k.held[key]
		if !held {
			break
		}
		k.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer k.mu.Unlock()
	if k.held == nil {
		k.held = map[spec.Digest]chan struct{}{}
	}
	done := make(chan struct{})
	k.held[key] = done
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.held, key)
		close(done)
	}, nil
}
