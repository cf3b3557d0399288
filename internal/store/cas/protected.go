package cas

import (
	"context"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// matching lists the paths of the delta that match a glob, sorted.
func (d Delta) matching(globs []string) (paths []string) {
	if len(globs) == 0 {
		return nil
	}
	for p := range d {
		if slices.ContainsFunc(globs, func(glob string) bool { return globMatches(glob, p) }) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

// Touched lists the paths of a delta that match a glob, sorted.
func (s *Store) Touched(ctx context.Context, delta spec.Digest, globs []string) ([]string, error) {
	d, err := s.Delta(ctx, delta)
	if err != nil {
		return nil, err
	}
	return d.matching(globs), nil
}

// protect restores the base's state of some paths in the tree.
func (t *Tree) protect(ctx context.Context, base *Tree, paths []string) error {
	had := Manifest{}
	for _, p := range paths {
		e, ok, err := base.Get(ctx, p)
		if err != nil {
			return err
		}
		if ok {
			had[p] = e
		} else if err := t.remove(ctx, p); err != nil {
			return err
		}
	}
	return t.setAll(ctx, had)
}
