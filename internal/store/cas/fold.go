package cas

import (
	"cmp"
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Fold applies the steps' deltas to the base in order and stores the resulting tree. If two steps
// change a path differently, the later one wins. This is a conflict unless it has been settled
// before ([session.Unsettled]): different contents or modes, an edit against a deletion, a file
// against a directory of the same name, a file in a directory that the other has removed or moved,
// and new names that differ only in case or Unicode form. Conflicts are sorted by path.
func (s *Store) Fold(ctx context.Context, base spec.Digest, steps []session.Step) (session.Folded, error) {
	t, err := s.Tree(ctx, base)
	if err != nil {
		return session.Folded{}, err
	}
	deltas, err := s.deltas(ctx, steps)
	if err != nil {
		return session.Folded{}, err
	}
	folded, err := t.with(ctx, deltas, func(int) bool { return true })
	if err != nil {
		return session.Folded{}, err
	}
	name, err := s.putTree(ctx, folded)
	if err != nil {
		return session.Folded{}, err
	}
	found, err := conflicts(ctx, t, steps, deltas)
	return session.Folded{Manifest: name, Conflicts: found}, err
}

// with returns the tree with those deltas that has selects by their numbers.
func (t *Tree) with(ctx context.Context, deltas []Delta, has func(i int) bool) (*Tree, error) {
	changed := t.copied()
	for i, d := range deltas {
		if has(i) {
			if err := changed.apply(ctx, d); err != nil {
				return nil, err
			}
		}
	}
	return changed, nil
}

func (s *Store) deltas(ctx context.Context, steps []session.Step) ([]Delta, error) {
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

// disputes collects the paths that unsettled steps change differently.
type disputes struct {
	steps []session.Step
	found map[dispute]struct{}
}

type dispute struct {
	path string
	i, j int
}

func (d *disputes) note(p string, i, j int) {
	i, j = min(i, j), max(i, j)
	if i != j && session.Unsettled(d.steps, i, j) {
		d.found[dispute{p, i, j}] = struct{}{}
	}
}

// conflicts returns the paths that unsettled steps change differently.
func conflicts(ctx context.Context, base *Tree, steps []session.Step, deltas []Delta) ([]session.Conflict, error) {
	all := &disputes{steps, map[dispute]struct{}{}}
	at := map[string][]touch{}
	for i, d := range deltas {
		for p, c := range d {
			for _, before := range at[p] {
				if before.change != c {
					all.note(p, before.step, i)
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
						all.note(dir, above.step, below.step)
					}
				}
			}
		}
	}
	if err := all.removedDirs(ctx, base, deltas); err != nil {
		return nil, err
	}
	if err := all.spellings(ctx, base, deltas); err != nil {
		return nil, err
	}
	return all.sorted(), nil
}

// removedDirs finds files that one step adds to a directory which another has removed or moved.
func (d *disputes) removedDirs(ctx context.Context, base *Tree, deltas []Delta) error {
	if len(deltas) < 2 {
		return nil
	}
	removed := map[string][]int{}
	for i := range deltas {
		dirs, err := d.removedBy(ctx, base, deltas, i)
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			removed[dir] = append(removed[dir], i)
		}
	}
	if len(removed) == 0 {
		return nil
	}
	for j, delta := range deltas {
		for p, c := range delta {
			for dir := path.Dir(p); dir != "." && !c.Deleted; dir = path.Dir(dir) {
				for _, i := range removed[dir] {
					d.note(p, i, j)
				}
			}
		}
	}
	return nil
}

// removedBy lists the directories that a step has removed from the tree that it was made on.
func (d *disputes) removedBy(ctx context.Context, base *Tree, deltas []Delta, i int) ([]string, error) {
	candidates := map[string]bool{}
	for p, c := range deltas[i] {
		for dir := path.Dir(p); dir != "." && c.Deleted; dir = path.Dir(dir) {
			candidates[dir] = true
		}
	}
	if len(candidates) == 0 {
		return nil, nil
	}
	t, err := base.with(ctx, deltas[:i+1], func(k int) bool { return k == i || d.steps[i].On[k] })
	if err != nil {
		return nil, err
	}
	var out []string
	for dir := range candidates {
		there, err := t.find(ctx, dir)
		if err != nil {
			return nil, err
		}
		if there == nil { // otherwise its path itself is disputed
			out = append(out, dir)
		}
	}
	return out, nil
}

// spellings finds new names of files and directories that differ only in case or in their Unicode
// form: on many systems they are the same file.
func (d *disputes) spellings(ctx context.Context, base *Tree, deltas []Delta) error {
	if len(deltas) < 2 {
		return nil
	}
	folded := map[string]map[string][]int{}
	caser := cases.Fold()
	for i, delta := range deltas {
		known := map[string]bool{}
		for p, c := range delta {
			for ; p != "." && !c.Deleted && !known[p]; p = path.Dir(p) {
				known[p] = true
				key := norm.NFC.String(caser.String(norm.NFC.String(p)))
				if folded[key] == nil {
					folded[key] = map[string][]int{}
				}
				folded[key][p] = append(folded[key][p], i)
			}
		}
	}
	for _, spelled := range folded {
		names := slices.Sorted(maps.Keys(spelled))
		for n := 1; n < len(names); n++ {
			for _, other := range names[:n] {
				if err := d.twins(ctx, base, other, names[n], spelled); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// twins notes a conflict of two spellings, unless the base has one of them.
func (d *disputes) twins(ctx context.Context, base *Tree, a, b string, by map[string][]int) error {
	for _, p := range []string{a, b} {
		found, err := base.find(ctx, p)
		if err != nil || found != nil {
			return err
		}
	}
	for _, i := range by[a] {
		for _, j := range by[b] {
			d.note(a, i, j)
			d.note(b, i, j)
		}
	}
	return nil
}

func (d *disputes) sorted() (out []session.Conflict) {
	keys := slices.SortedFunc(maps.Keys(d.found), func(a, b dispute) int {
		return cmp.Or(strings.Compare(a.path, b.path), a.i-b.i, a.j-b.j)
	})
	for _, k := range keys {
		out = append(out, session.Conflict{Path: k.path, Between: []spec.AssignmentID{d.steps[k.i].By, d.steps[k.j].By}})
	}
	return out
}

// Artifacts lists the files and links that the steps created or changed and that still exist
// after the last step, each with the last step that set it, sorted by path.
func (s *Store) Artifacts(ctx context.Context, steps []session.Step) ([]session.Artifact, error) {
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
