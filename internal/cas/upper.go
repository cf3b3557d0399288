package cas

import (
	"context"
	"fmt"
	"os"
	"path"

	"github.com/maestro-hive/maestro/internal/overlayfs"
	"github.com/maestro-hive/maestro/internal/spec"
)

// lowerTree is the tree below the upper directory of an overlay, and what the directory
// takes away from it. A nil one has nothing.
type lowerTree struct {
	*Tree
	// gone are paths that are taken away with all below them, as they were come upon.
	gone []string
}

// covered notes what of the tree an entry of the upper directory hides, and reports
// whether that is all that the entry is for. in is the directory that has it.
func (l *lowerTree) covered(p string, now listed, in *treeDir) (whiteout bool) {
	if l == nil {
		return false
	}
	if e := in.entry(now.name); e != nil && (now.whiteout || e.sub == nil || !now.mode.IsDir()) {
		l.gone = append(l.gone, p)
	}
	return now.whiteout
}

// hiddenBy reports whether a directory hides what the tree has below it, which it notes.
// The top never does, and where there is nothing to hide, nobody need look. The kernel
// keeps the mark from those who use the mount: there, xattrs of its name are others.
func (l *lowerTree) hiddenBy(dir *os.File, p string, d *treeDir) (bool, error) {
	if p == "." || d == nil {
		return false, nil
	}
	opaque, err := overlayfs.IsOpaque(dir)
	if opaque {
		l.gone = append(l.gone, p)
	}
	return opaque, err
}

// rulesOf adds the tree's .gitignore of a directory to the rules above it.
func (l *lowerTree) rulesOf(ctx context.Context, p string, at scope) (*ignoreRules, error) {
	e := at.lower.entry(ignoreFile)
	if e == nil || e.SHA256 == "" {
		return at.rules, nil
	}
	p = path.Join(p, ignoreFile)
	if e.Size > maxIgnoreFile {
		return nil, ignoreFileTooLarge(p, e.Size)
	}
	text, err := l.blobs.Blob(ctx, e.SHA256)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", p, err)
	}
	return parseIgnore(at.rules, path.Dir(p), string(text)), nil
}

// check refuses what the files make of the tree if it has too many files, or more bytes
// than most, at the path at which a walk through all of it comes upon that.
func (l *lowerTree) check(ctx context.Context, files []found, limits Limits, most int64) error {
	sizes := make(Manifest, len(files))
	for _, f := range files {
		if sizes[f.path] = f.Entry; f.Link == "" {
			sizes[f.path] = Entry{Size: f.listed.Size}
		}
	}
	t, err := l.with(ctx, sizes)
	if err != nil {
		return err
	}
	if t.Files() <= limits.Files && t.Bytes() <= most {
		return nil
	}
	var n totals
	return t.walk(ctx, ".", func(p string, e Entry) error {
		if n = n.plus(totals{1, e.Size}); n.files > limits.Files {
			return tooManyFiles(p, limits.Files)
		}
		if n.bytes > most {
			return treeTooLarge(p, most)
		}
		return nil
	})
}

// with returns the tree with what the upper directory takes away and holds.
func (l *lowerTree) with(ctx context.Context, found Manifest) (*Tree, error) {
	t := l.copied()
	for _, p := range l.gone {
		if _, ok := found[p]; ok {
			continue // it takes the place
		}
		if err := t.remove(ctx, p, true); err != nil {
			return nil, err
		}
	}
	return t, t.setAll(ctx, found)
}

// over lays what has become of the tree over another one, as far as it matches only.
func (l *lowerTree) over(ctx context.Context, before *Tree, found Manifest, only patterns) (*Tree, error) {
	d, err := Diff(ctx, before, l.Tree)
	if err != nil {
		return nil, err
	}
	for _, gone := range l.gone {
		err := l.walk(ctx, gone, func(p string, _ Entry) error {
			d[p] = Change{Deleted: true}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for p := range d {
		if !only.match(p) {
			delete(d, p)
		}
	}
	t := before.copied()
	if err := t.apply(ctx, d); err != nil {
		return nil, err
	}
	return t, t.setAll(ctx, found)
}

// lowerOf returns the tree below an upper directory; nil if there is none. It may be the base.
func (s *Store) lowerOf(ctx context.Context, manifest spec.Digest, base *Tree) (*lowerTree, error) {
	switch manifest {
	case "":
		return nil, nil //nolint:nilnil // a nil tree has nothing
	case base.top.blob:
		return &lowerTree{Tree: base}, nil
	}
	t, err := s.Tree(ctx, manifest)
	return &lowerTree{Tree: t}, err
}
