package cas

import (
	"context"
	"iter"
	"path"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// compare visits the entries that differ between two trees. For a directory, visit returns
// whether to visit its content, too. Directories with equal digests are skipped. An absent entry
// is nil.
func compare(ctx context.Context, a, b *Tree, visit func(p string, x, y *dirEntry) bool) error {
	var dirs func(at string, x, y *treeDir) error
	dirs = func(at string, x, y *treeDir) error {
		if x == y || x != nil && y != nil && x.blob != "" && x.blob == y.blob {
			return nil
		}
		var was, is []dirEntry
		if x != nil {
			if err := a.read(ctx, x, at); err != nil {
				return err
			}
			was = x.entries
		}
		if y != nil {
			if err := b.read(ctx, y, at); err != nil {
				return err
			}
			is = y.entries
		}
		for e, f := range pairs(was, is) {
			var sub, now *treeDir
			var p string
			if e != nil {
				sub, p = e.sub, path.Join(at, e.name)
			}
			if f != nil {
				now, p = f.sub, path.Join(at, f.name)
			}
			if (e == nil || f == nil || *e != *f) && visit(p, e, f) && (sub != nil || now != nil) {
				if err := dirs(p, sub, now); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return dirs(".", a.top, b.top)
}

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
// difference.
func Diff(ctx context.Context, base, target *Tree) (Delta, error) {
	base.top.digest()
	target.top.digest()
	d := Delta{}
	err := compare(ctx, base, target, func(p string, x, y *dirEntry) bool {
		switch {
		case y.isFile() && (!x.isFile() || x.Entry != y.Entry):
			d[p] = Change{Entry: y.Entry}
		case x.isFile() && !y.isFile():
			d[p] = Change{Deleted: true}
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return d, nil
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
