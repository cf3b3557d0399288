package cas

import (
	"context"
	"iter"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// pairs yields the entries of two sorted directories, matched by name.
func pairs(a, b []dirEntry) iter.Seq2[*dirEntry, *dirEntry] {
	return func(yield func(x, y *dirEntry) bool) {
		for len(a) > 0 || len(b) > 0 {
			var x, y *dirEntry
			if len(b) == 0 || len(a) > 0 && a[0].name <= b[0].name {
				x = &a[0]
			}
			if len(a) == 0 || len(b) > 0 && b[0].name <= a[0].name {
				y = &b[0]
			}
			if x != nil {
				a = a[1:]
			}
			if y != nil {
				b = b[1:]
			}
			if !yield(x, y) {
				return
			}
		}
	}
}

// isFile reports whether the entry exists and is not a directory.
func (e *dirEntry) isFile() bool { return e != nil && e.sub == nil }

// Diff returns the delta that changes base into target. Its cost is proportional to the
// difference: directories with equal digests are skipped.
func Diff(ctx context.Context, base, target *Tree) (Delta, error) {
	base.top.digest()
	target.top.digest()
	d := Delta{}
	var compare func(at string, x, y *treeDir) error
	compare = func(at string, x, y *treeDir) error {
		if x == y || x != nil && y != nil && x.blob == y.blob {
			return nil
		}
		was, err := base.list(ctx, x, at)
		if err != nil {
			return err
		}
		is, err := target.list(ctx, y, at)
		if err != nil {
			return err
		}
		for e, f := range pairs(was, is) {
			var p string
			var before, after *treeDir
			if e != nil {
				p, before = below(at, e.name), e.sub
			}
			if f != nil {
				p, after = below(at, f.name), f.sub
			}
			switch {
			case f.isFile() && (!e.isFile() || e.Entry != f.Entry):
				d[p] = Change{Entry: f.Entry}
			case e.isFile() && !f.isFile():
				d[p] = Change{Deleted: true}
			}
			if err := compare(p, before, after); err != nil {
				return err
			}
		}
		return nil
	}
	if err := compare(".", base.top, target.top); err != nil {
		return nil, err
	}
	return d, nil
}

// list reads the entries of a directory; nil has none.
func (t *Tree) list(ctx context.Context, d *treeDir, at string) ([]dirEntry, error) {
	if d == nil {
		return nil, nil
	}
	err := t.read(ctx, d, at)
	return d.entries, err
}

// Changed lists the paths, sorted, that are new in a tree or have other content than in its
// input.
func (s *Store) Changed(ctx context.Context, input, tree spec.Digest) ([]string, error) {
	before, after, err := s.trees(ctx, input, tree)
	if err != nil {
		return nil, err
	}
	d, err := Diff(ctx, before, after)
	return d.Changed(), err
}

// trees opens two trees.
func (s *Store) trees(ctx context.Context, a, b spec.Digest) (*Tree, *Tree, error) {
	one, err := s.Tree(ctx, a)
	if err != nil {
		return nil, nil, err
	}
	other, err := s.Tree(ctx, b)
	return one, other, err
}
