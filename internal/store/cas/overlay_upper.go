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

// lowerOf returns the lower tree of an overlay; nil if there is none. It may be what the directory had before.
func (s *Store) lowerOf(ctx context.Context, manifest spec.Digest, before *Tree) (*lowerTree, error) {
	switch manifest {
	case "":
		return nil, nil //nolint:nilnil // a nil lowerTree is empty
	case before.top.blob:
		return &lowerTree{Tree: before}, nil
	}
	t, err := s.Tree(ctx, manifest)
	return &lowerTree{Tree: t}, err
}
