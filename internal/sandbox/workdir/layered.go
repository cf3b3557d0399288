package workdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/sandbox/proctree"
)

const (
	// layeredLink is the link in an assignment's directory that names the layers of its tree: see [layered].
	layeredLink = "layered"
	// overlayDir is the directory beside a tree that the kernel needs for an overlay.
	overlayDir = "overlay"
	// checkDir has the directories of the check that runs, or ran last.
	checkDir = "check"
)

// Acquire returns the read-only layers of a manifest's tree, the topmost first. They are not
// removed until they are released. If they do not exist, they are made, if possible on top of the
// layer of one of the similar trees near.
type Acquire func(ctx context.Context, manifest spec.Digest, near ...spec.Digest) (dirs []string, release func(), err error)

// layered is the target of layeredLink: Manifest, and after blanks Collected and the boot id of the
// host. A link is replaced atomically, and costs less than a file.
type layered struct {
	// Manifest is the tree of the layers.
	Manifest spec.Digest
	// Collected is the tree of the layers and the changes above them; empty: it is not
	// known, because a process may have changed files since it was collected, or because a power
	// loss may have.
	Collected spec.Digest
}

// HasLayers reports whether trees can be shown as layers.
func (d *Dirs) HasLayers() bool { return d.options.Acquire != nil }

// UseLayers makes an assignment's tree show a manifest: layers with nothing above them. The
// changes of an agent above the layers are kept if they were collected as this manifest:
// then ignored files are kept, too. The layers are held until release is called.
func (d *Dirs) UseLayers(ctx context.Context, w session.WorkDir, manifest spec.Digest, near ...spec.Digest) (_ session.WorkDir,
	release func(), err error,
) {
	if w.New { // nothing is there
		return d.addLayersAndNote(ctx, w, manifest, near...)
	}
	if was, ok := readLayered(w); ok && was.Collected == manifest {
		return d.addLayersAndNote(ctx, w, was.Manifest)
	}
	if err := d.ForgetLayers(w); err != nil {
		return w, nil, err
	}
	if err := clearDir(w, filepath.Base(w.Tree), overlayDir); err != nil {
		return w, nil, err
	}
	return d.addLayersAndNote(ctx, w, manifest, near...)
}

// WithLayers returns an assignment's directory with the layers of its tree; without layers
// if it was filled in another way. The layers are held until release is called.
func (d *Dirs) WithLayers(ctx context.Context, w session.WorkDir) (_ session.WorkDir, release func(), err error) {
	was, ok := readLayered(w)
	if !ok {
		return w, func() {}, nil
	}
	return d.addLayersAndNote(ctx, w, was.Manifest)
}

// addLayersAndNote adds the layers of a manifest to an assignment's directory and notes them,
// before a process works there.
func (d *Dirs) addLayersAndNote(ctx context.Context, w session.WorkDir, manifest spec.Digest,
	near ...spec.Digest,
) (_ session.WorkDir, release func(), err error) {
	laid, release, err := d.addLayers(ctx, w, manifest, near...)
	if err != nil {
		return w, nil, err
	}
	if err := writeLayered(w, layered{Manifest: manifest}); err != nil {
		release()
		return w, nil, err
	}
	return laid, release, nil
}

// NoteCollected notes which tree was collected from an assignment's directory, if it has
// layers. An error is ignored: without the note the directory is filled anew.
func (d *Dirs) NoteCollected(w session.WorkDir, tree spec.Digest) {
	if w.Layers != nil {
		_ = writeLayered(w, layered{Manifest: w.Layers.Manifest, Collected: tree})
	}
}

// IsLayered reports whether an assignment's tree has layers.
func (d *Dirs) IsLayered(w session.WorkDir) bool {
	_, ok := readLayered(w)
	return ok
}

// ForgetLayers removes the note of a tree's layers. It is called before the tree is filled.
func (d *Dirs) ForgetLayers(w session.WorkDir) error {
	if err := os.Remove(layeredPath(w)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// MakeCheckDir makes directories for one check: a manifest's tree in layers, with nothing
// above them, an empty HOME and an empty TMPDIR. The layers are held until release is called. Without
// layers, the tree is that of w.
func (d *Dirs) MakeCheckDir(ctx context.Context, w session.WorkDir, manifest spec.Digest, near ...spec.Digest) (_ session.WorkDir,
	release func(), err error,
) {
	if err := clearDir(w, checkDir); err != nil {
		return session.WorkDir{}, nil, err
	}
	dir := filepath.Join(filepath.Dir(w.Tree), checkDir)
	fresh := session.WorkDir{Tree: w.Tree, Home: filepath.Join(dir, "home"), Tmp: filepath.Join(dir, "tmp")}
	if d.HasLayers() {
		fresh.Tree = filepath.Join(dir, "tree")
	}
	if err := errors.Join(d.makeParents(dir), makeAll(fresh)); err != nil {
		return fresh, nil, fmt.Errorf("create the directories of a check: %w", err)
	}
	if !d.HasLayers() {
		return fresh, func() {}, nil
	}
	return d.addLayers(ctx, fresh, manifest, near...)
}

// ClearCheckDir removes the directories of the last check.
func (d *Dirs) ClearCheckDir(w session.WorkDir) error { return clearDir(w, checkDir) }

// addLayers adds the layers of a manifest to a directory. They are held until release is called.
func (d *Dirs) addLayers(ctx context.Context, w session.WorkDir, manifest spec.Digest, near ...spec.Digest) (_ session.WorkDir,
	release func(), err error,
) {
	dirs, release, err := d.options.Acquire(ctx, manifest, near...)
	if err != nil {
		return w, nil, err
	}
	w.Layers = &session.Layers{Manifest: manifest, Dirs: dirs, Work: filepath.Join(filepath.Dir(w.Tree), overlayDir)}
	if err := makeDir(w.Layers.Work); err != nil {
		release()
		return w, nil, err
	}
	return w, release, nil
}

func layeredPath(w session.WorkDir) string { return filepath.Join(filepath.Dir(w.Tree), layeredLink) }

func readLayered(w session.WorkDir) (layered, bool) {
	target, err := os.Readlink(layeredPath(w))
	note := append(strings.Fields(target), "", "", "")
	l := layered{Manifest: spec.Digest(note[0])}
	if id, unknown := proctree.BootID(); unknown == nil && note[2] == id {
		l.Collected = spec.Digest(note[1])
	}
	return l, err == nil && l.Manifest.Valid()
}

// writeLayered writes the note. A power loss may remove it: then the directory is filled anew.
func writeLayered(w session.WorkDir, l layered) error {
	target := string(l.Manifest)
	if id, err := proctree.BootID(); err == nil && l.Collected != "" {
		target = fmt.Sprint(l.Manifest, " ", l.Collected, " ", id)
	}
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
