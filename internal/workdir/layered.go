package workdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

const (
	// layeredLink says, in an assignment's directory, over which layers its tree lies: see [layered].
	layeredLink = "layered"
	// overlayDir is the directory beside a tree that the kernel needs for an overlay.
	overlayDir = "overlay"
	// freshDir has the directories of the check that runs, or ran last.
	freshDir = "check"
)

// Acquire returns the read-only layers of a manifest's tree, the topmost first, which stay
// until they are released. They are made over those of the nearest of the other manifests if
// they are absent.
type Acquire func(ctx context.Context, manifest spec.Digest, near ...spec.Digest) (dirs []string, release func() error, err error)

// layered is what layeredLink has as its target: Manifest, and Collected after a blank. A link is
// written and replaced as a whole, and costs less than a file.
type layered struct {
	// Manifest is the tree of the layers.
	Manifest spec.Digest
	// Collected is the tree that the layers and the changes above them make; empty: that is not
	// known, because something may have worked there since it was collected.
	Collected spec.Digest
}

// HasLayers reports whether trees can be layered.
func (d *Dirs) HasLayers() bool { return d.options.Acquire != nil }

// FreeLayers removes unused layers for a full disk, and reports whether there were any.
func (d *Dirs) FreeLayers(ctx context.Context) bool {
	return d.options.FreeLayers != nil && d.options.FreeLayers(ctx)
}

// Lay has an assignment's tree show a manifest: layers with nothing above them. What an
// agent left above them stays if it was collected as just that manifest: then ignored files
// stay, too. The layers are held until ctx ends.
func (d *Dirs) Lay(ctx context.Context, w session.WorkDir, manifest spec.Digest, near ...spec.Digest) (session.WorkDir, error) {
	if w.New { // nothing is there
		return d.layOver(ctx, w, manifest, near...)
	}
	if was, ok := readLayered(w); ok && was.Collected == manifest {
		return d.layOver(ctx, w, was.Manifest)
	}
	if err := d.Unlay(w); err != nil {
		return w, err
	}
	if err := errors.Join(d.forget(w.Tree), clearDir(w, filepath.Base(w.Tree), overlayDir)); err != nil {
		return w, err
	}
	return d.layOver(ctx, w, manifest, near...)
}

// Laid returns an assignment's directory with the layers that its tree lies over; without
// some if it was filled otherwise. The layers are held until ctx ends.
func (d *Dirs) Laid(ctx context.Context, w session.WorkDir) (session.WorkDir, error) {
	was, ok := readLayered(w)
	if !ok {
		return w, nil
	}
	return d.layOver(ctx, w, was.Manifest)
}

// layOver adds the layers of a manifest to an assignment's directory and notes them, for
// something that is about to work there.
func (d *Dirs) layOver(ctx context.Context, w session.WorkDir, manifest spec.Digest, near ...spec.Digest) (session.WorkDir, error) {
	laid, err := d.over(ctx, w, manifest, near...)
	if err == nil {
		err = writeLayered(w, layered{Manifest: manifest})
	}
	return laid, err
}

// Collected notes which tree was collected from an assignment's directory, if it lies over
// layers. A note that cannot be written costs time later.
func (d *Dirs) Collected(w session.WorkDir, tree spec.Digest) {
	if w.Layers != nil {
		_ = writeLayered(w, layered{Manifest: w.Layers.Manifest, Collected: tree})
	}
}

// Layered reports whether an assignment's tree lies over layers.
func (d *Dirs) Layered(w session.WorkDir) bool {
	_, ok := readLayered(w)
	return ok
}

// Unlay forgets that an assignment's tree lies over layers, before it is filled.
func (d *Dirs) Unlay(w session.WorkDir) error {
	if err := os.Remove(layeredPath(w)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Fresh makes directories for one check: a manifest's tree in layers, with nothing above
// them, an empty HOME and an empty TMPDIR. The layers are held, and the directories kept,
// until ctx ends.
func (d *Dirs) Fresh(ctx context.Context, w session.WorkDir, manifest spec.Digest, near ...spec.Digest) (session.WorkDir, error) {
	if err := clearDir(w, freshDir); err != nil {
		return session.WorkDir{}, err
	}
	dir := filepath.Join(filepath.Dir(w.Tree), freshDir)
	fresh := session.WorkDir{Tree: filepath.Join(dir, "tree"), Home: filepath.Join(dir, "home"), Tmp: filepath.Join(dir, "tmp")}
	if err := errors.Join(d.makeParents(dir), makeAll(fresh)); err != nil {
		return fresh, fmt.Errorf("create the directories of a check: %w", err)
	}
	return d.over(ctx, fresh, manifest, near...)
}

// ClearFresh removes the directories of the last check.
func (d *Dirs) ClearFresh(w session.WorkDir) error { return clearDir(w, freshDir) }

// over adds the layers of a manifest to a directory.
func (d *Dirs) over(ctx context.Context, w session.WorkDir, manifest spec.Digest, near ...spec.Digest) (session.WorkDir, error) {
	dirs, release, err := d.options.Acquire(ctx, manifest, near...)
	if err != nil {
		return w, err
	}
	context.AfterFunc(ctx, func() { _ = release() })
	w.Layers = &session.Layers{Manifest: manifest, Dirs: dirs, Work: filepath.Join(filepath.Dir(w.Tree), overlayDir)}
	return w, makeDir(w.Layers.Work)
}

func layeredPath(w session.WorkDir) string { return filepath.Join(filepath.Dir(w.Tree), layeredLink) }

func readLayered(w session.WorkDir) (layered, bool) {
	target, err := os.Readlink(layeredPath(w))
	manifest, collected, _ := strings.Cut(target, " ")
	l := layered{Manifest: spec.Digest(manifest), Collected: spec.Digest(collected)}
	return l, err == nil && l.Manifest.Valid()
}

// writeLayered writes the note. After a power loss it may be gone: then the directory is filled
// anew.
func writeLayered(w session.WorkDir, l layered) error {
	target := strings.TrimSpace(string(l.Manifest + " " + l.Collected))
	path, next := layeredPath(w), layeredPath(w)+".new"
	err := os.Symlink(target, next)
	if errors.Is(err, fs.ErrExist) { // of a worker that was killed
		err = errors.Join(os.Remove(next), os.Symlink(target, next))
	}
	if err != nil {
		return err
	}
	return os.Rename(next, path)
}
