package cas

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Fold applies the steps' deltas to the base in order and stores the resulting tree. If two steps
// change a path differently, the later one wins. This is a conflict unless it has been settled
// before ([session.Unsettled]): different contents, an edit against a deletion, a file against a
// directory of the same name. Conflicts are sorted by path.
func (s trees) Fold(ctx context.Context, base spec.Digest, steps []session.Step) (session.Folded, error) {
	t, err := s.Tree(ctx, base)
	if err != nil {
		return session.Folded{}, err
	}
	deltas, err := s.deltas(ctx, steps)
	if err != nil {
		return session.Folded{}, err
	}
	t = t.copied()
	for _, d := range deltas {
		if err := t.apply(ctx, d); err != nil {
			return session.Folded{}, err
		}
	}
	name, err := s.putTree(ctx, t)
	if err != nil {
		return session.Folded{}, err
	}
	return session.Folded{Manifest: name, Conflicts: conflicts(steps, deltas)}, nil
}

func (s trees) deltas(ctx context.Context, steps []session.Step) ([]Delta, error) {
	out := make([]Delta, len(steps))
	for i, step := range steps {
		var err error
		if out[i], err = s.Delta(ctx, step.Delta); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// touch is what one step does to a path, or below it.
type touch struct {
	step   int
	change Change
}

// conflicts returns the paths that unsettled steps change differently.
func conflicts(steps []session.Step, deltas []Delta) []session.Conflict {
	type key struct {
		path string
		i, j int
	}
	disputed := map[key]struct{}{}
	note := func(p string, i, j int) {
		i, j = min(i, j), max(i, j)
		if i != j && session.Unsettled(steps, i, j) {
			disputed[key{p, i, j}] = struct{}{}
		}
	}
	at := map[string][]touch{}
	for i, d := range deltas {
		for p, c := range d {
			for _, before := range at[p] {
				if before.change != c {
					note(p, before.step, i)
				}
			}
			at[p] = append(at[p], touch{i, c})
		}
	}
	for p, touches := range at {
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			for _, above := range at[dir] {
				for _, below := range touches {
					if !above.change.Deleted && !below.change.Deleted {
						note(dir, above.step, below.step)
					}
				}
			}
		}
	}
	var out []session.Conflict
	keys := slices.SortedFunc(maps.Keys(disputed), func(a, b key) int {
		if c := strings.Compare(a.path, b.path); c != 0 {
			return c
		}
		if a.i != b.i {
			return a.i - b.i
		}
		return a.j - b.j
	})
	for _, k := range keys {
		out = append(out, session.Conflict{Path: k.path, Between: []spec.AssignmentID{steps[k.i].By, steps[k.j].By}})
	}
	return out
}

// Artifacts lists the files and links that the steps created or changed and that still exist
// after the last step, each with the last step that set it, sorted by path.
func (s trees) Artifacts(ctx context.Context, steps []session.Step) ([]session.Artifact, error) {
	deltas, err := s.deltas(ctx, steps)
	if err != nil {
		return nil, err
	}
	t := s.emptyTree()
	by := map[string]spec.AssignmentID{}
	for i, d := range deltas {
		if err := t.apply(ctx, d); err != nil {
			return nil, err
		}
		for p, c := range d {
			if !c.Deleted {
				by[p] = steps[i].By
			}
		}
	}
	files, err := t.Manifest(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]session.Artifact, 0, len(files))
	for _, p := range files.Paths() {
		e := files[p]
		out = append(out, session.Artifact{Path: p, SHA256: e.SHA256, Size: e.Size, AssignmentID: by[p]})
	}
	return out, nil
}
