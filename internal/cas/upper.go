package cas

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/spec"
)

// lowerTree is the tree below the upper directory of an overlay, and what the directory
// takes away from it. A nil one has nothing.
type lowerTree struct {
	*decoded
	blobs *blobs
	// gone are paths that are taken away with all below them, as they were come upon.
	gone []string
}

func (l *lowerTree) has(p string) bool {
	if l == nil {
		return false
	}
	_, ok := l.Manifest[p]
	return ok
}

func (l *lowerTree) hasBelow(dir string) bool {
	return l != nil && len(below(l.paths(), dir)) > 0
}

// covered notes what of the tree an entry of the upper directory hides, and reports
// whether that is all that the entry is for.
func (l *lowerTree) covered(p string, info fs.FileInfo) (whiteout bool) {
	if l == nil {
		return false
	}
	whiteout = isWhiteout(info)
	if whiteout || l.has(p) || !info.IsDir() && l.hasBelow(p) {
		l.gone = append(l.gone, p)
	}
	return whiteout
}

// hiddenBy reports whether a directory hides what the tree has below it, which it notes.
// The top never does, and where there is nothing to hide, nobody need look. The kernel
// keeps the mark from those who use the mount: there, xattrs of its name are others.
func (l *lowerTree) hiddenBy(root *os.Root, dir string) (bool, error) {
	if dir == "." || !l.hasBelow(dir) {
		return false, nil
	}
	opaque, err := isOpaque(root)
	if opaque {
		l.gone = append(l.gone, dir)
	}
	return opaque, err
}

// rulesOf adds the tree's .gitignore of a directory to the rules above it.
func (l *lowerTree) rulesOf(ctx context.Context, dir string, above *ignoreRules) (*ignoreRules, error) {
	p := path.Join(dir, ignoreFile)
	if !l.has(p) {
		return above, nil
	}
	e := l.Manifest[p]
	if e.Link != "" {
		return above, nil
	}
	if e.Size > maxIgnoreFile {
		return nil, ignoreFileTooLarge(p, e.Size)
	}
	text, err := l.blobs.Blob(ctx, e.SHA256)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", p, err)
	}
	return parseIgnore(above, dir, string(text)), nil
}

// removed are the paths of the tree that the upper directory takes away.
func (l *lowerTree) removed() map[string]struct{} {
	out := map[string]struct{}{}
	for _, p := range l.gone {
		if l.has(p) {
			out[p] = struct{}{}
		}
		for _, q := range below(l.paths(), p) {
			out[q] = struct{}{}
		}
	}
	return out
}

// check refuses what the files make of the tree if it has too many files, or more bytes
// than most, at the path at which a walk through all of it comes upon that.
func (l *lowerTree) check(files []found, limits Limits, most int64) error {
	removed := l.removed()
	n, bytes := len(l.Manifest)-len(removed), l.bytes()
	for p := range removed {
		bytes -= l.Manifest[p].Size
	}
	for _, f := range files {
		if _, ok := removed[f.path]; !ok && l.has(f.path) {
			n--
			bytes -= l.Manifest[f.path].Size
		}
		n++
		bytes += f.bytes()
	}
	if n <= limits.Files && bytes <= most {
		return nil
	}
	sizes := map[string]int64{}
	for p, e := range l.Manifest {
		if _, ok := removed[p]; !ok {
			sizes[p] = e.Size
		}
	}
	for _, f := range files {
		sizes[f.path] = f.bytes()
	}
	n, bytes = 0, 0
	for _, p := range slices.SortedFunc(maps.Keys(sizes), walkOrder) {
		if n++; n > limits.Files {
			return tooManyFiles(p, limits.Files)
		}
		if bytes += sizes[p]; bytes > most {
			return treeTooLarge(p, most)
		}
	}
	return nil
}

// bytes is the size of a file's content.
func (f found) bytes() int64 {
	if f.link != "" {
		return 0
	}
	return f.size
}

// walkOrder compares paths by their names, as a walk comes upon them.
func walkOrder(a, b string) int {
	flat := func(p string) string { return strings.ReplaceAll(p, "/", "\x00") }
	return strings.Compare(flat(a), flat(b))
}

// with returns the tree with what the upper directory takes away and holds.
func (l *lowerTree) with(found Manifest) outcome {
	t := outcome{Manifest: maps.Clone(l.Manifest), changes: Delta{}}
	for p := range l.removed() {
		if _, ok := found[p]; !ok {
			t.changes[p] = Change{Deleted: true}
			delete(t.Manifest, p)
		}
	}
	var added []string
	for p, e := range found {
		if l.Manifest[p] == e {
			continue
		}
		if !l.has(p) {
			added = append(added, p)
		}
		t.changes[p] = Change{Entry: e}
		t.Manifest[p] = e
	}
	slices.Sort(added)
	t.paths = make([]string, 0, len(t.Manifest))
	for _, p := range l.paths() {
		for len(added) > 0 && added[0] < p {
			t.paths, added = append(t.paths, added[0]), added[1:]
		}
		if !t.changes[p].Deleted {
			t.paths = append(t.paths, p)
		}
	}
	t.paths = append(t.paths, added...)
	return t
}

// over lays what has become of the tree over another one, as far as it matches only.
func (l *lowerTree) over(before, found Manifest, only patterns) Manifest {
	t := newTree(before)
	for p, c := range Diff(before, l.Manifest) {
		switch {
		case !only.match(p):
		case c.Deleted:
			t.remove(p)
		default:
			t.set(p, c.Entry)
		}
	}
	for p := range l.removed() {
		if only.match(p) {
			t.remove(p)
		}
	}
	for p, e := range found {
		t.set(p, e)
	}
	return t.files
}

// lowerOf reads the tree below an upper directory; nil if there is none.
func (s *Store) lowerOf(ctx context.Context, manifest spec.Digest) (*lowerTree, error) {
	if manifest == "" {
		return nil, nil //nolint:nilnil // a nil tree has nothing
	}
	m, err := s.shared(ctx, manifest)
	if err != nil {
		return nil, err
	}
	return &lowerTree{decoded: m, blobs: s.blobs}, nil
}
