package cas

import (
	"context"
	"fmt"
	"os"
	"path"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// lowerTree is the lower tree of an overlay, and what the upper layer removes from it. A nil
// lowerTree is empty.
type lowerTree struct {
	*Tree
	// removed are paths that the upper layer removes with everything below them, in the order in
	// which they were found.
	removed []string
}

// noteCovered records the path if the upper entry hides the lower entry of the same name. It
// reports whether the entry is a whiteout, which has no other meaning. in is the lower directory.
func (l *lowerTree) noteCovered(p string, now dirItem, in *treeDir) (whiteout bool) {
	if l == nil {
		return false
	}
	if e := in.entry(now.name); e != nil && (now.whiteout || e.sub == nil || !now.mode.IsDir()) {
		l.removed = append(l.removed, p)
	}
	return now.whiteout
}

// noteOpaque reports whether an upper directory is opaque, and records its path if it is. The top
// is never opaque. If the lower tree has no directory d, the attribute is not read. The kernel
// hides the attribute from users of the mount; an attribute of that name in the mount is another
// one.
func (l *lowerTree) noteOpaque(dir *os.Root, p string, d *treeDir) (bool, error) {
	if p == "." || d == nil {
		return false, nil
	}
	opaque, err := isOpaque(dir)
	if opaque {
		l.removed = append(l.removed, p)
	}
	return opaque, err
}

// lowerRules adds the lower tree's .gitignore of a directory to the rules above it.
func (sc *scanner) lowerRules(ctx context.Context, p string, at scope) (*ignoreRules, error) {
	e := at.lower.entry(ignoreFile)
	if e == nil || e.SHA256 == "" {
		return at.rules, nil
	}
	p = path.Join(p, ignoreFile)
	if e.Size > maxIgnoreFile {
		return sc.noRules(at, p, ignoreFileTooLarge(e.Size)), nil
	}
	text, err := sc.lower.in.Blob(ctx, e.SHA256)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", p, err)
	}
	return sc.withRules(at, p, string(text)), nil
}

// check returns an error if the merged tree has too many files or more bytes than most. The error
// names the path at which a walk through the merged tree exceeds the limit.
func (l *lowerTree) check(ctx context.Context, files []found, limits Limits, most int64) error {
	sizes := make(Manifest, len(files))
	for _, f := range files {
		if sizes[f.path] = f.Entry; f.Link == "" && !f.keeps {
			sizes[f.path] = Entry{Size: f.listed.size}
		}
	}
	t, err := l.withUpper(ctx, sizes, nil)
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

// withUpper returns the tree that results from the upper layer, or from what matches only in it. An empty only matches
// everything.
func (l *lowerTree) withUpper(ctx context.Context, found Manifest, only patterns) (*Tree, error) {
	t := l.copied()
	for _, gone := range l.removed {
		err := l.walk(ctx, gone, func(p string, _ Entry) error {
			if len(only) > 0 && !only.match(p) {
				return nil
			}
			return t.remove(ctx, p)
		})
		if err != nil {
			return nil, err
		}
	}
	return t, t.setAll(ctx, found)
}

// lowerOf returns the lower tree of an overlay; nil if there is none. It may be the base.
func (s *Store) lowerOf(ctx context.Context, manifest spec.Digest, base *Tree) (*lowerTree, error) {
	switch manifest {
	case "":
		return nil, nil //nolint:nilnil // a nil lowerTree is empty
	case base.top.blob:
		return &lowerTree{Tree: base}, nil
	}
	t, err := s.Tree(ctx, manifest)
	return &lowerTree{Tree: t}, err
}
