package cas

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// maxSideDiff bounds the diff of one side of a conflict, in bytes.
const maxSideDiff = 256 * 1024

// version is the tree of one persona, with the work that it was made on. It is not stored.
type version struct {
	by spec.AssignmentID
	// on are the authors of the work that it was made on.
	on map[spec.AssignmentID]bool
	// delta is how its tree differs from what all versions of the conflicts were made on.
	delta Delta
	tree  *Tree
}

// sides returns what all versions of the conflicts were made on, and these versions.
func (s *Store) sides(ctx context.Context, base spec.Digest, steps []session.Step, conflicts []session.Conflict) (*Tree,
	[]version, error,
) {
	before, err := s.Tree(ctx, base)
	if err != nil {
		return nil, nil, err
	}
	deltas, err := s.deltas(ctx, steps)
	if err != nil {
		return nil, nil, err
	}
	last := map[spec.AssignmentID]int{} // a persona's version is that of its last step
	for i, step := range steps {
		if slices.ContainsFunc(conflicts, func(c session.Conflict) bool { return slices.Contains(c.Between, step.By) }) {
			last[step.By] = i
		}
	}
	of := slices.Sorted(maps.Values(last))
	common, err := before.with(ctx, deltas, func(i int) bool {
		return !slices.ContainsFunc(of, func(v int) bool { return !steps[v].On[i] })
	})
	if err != nil {
		return nil, nil, err
	}
	var all []version
	for _, v := range of {
		one := version{by: steps[v].By, on: map[spec.AssignmentID]bool{}}
		for i := range steps[v].On {
			one.on[steps[i].By] = true
		}
		if one.tree, err = before.with(ctx, deltas, func(i int) bool { return i == v || steps[v].On[i] }); err != nil {
			return nil, nil, err
		}
		if one.delta, err = Diff(ctx, common, one.tree); err != nil {
			return nil, nil, err
		}
		all = append(all, one)
	}
	return common, all, nil
}

// between selects the versions of a conflict: not those that another one of them was made on.
func between(all []version, c session.Conflict) []version {
	of := slices.DeleteFunc(slices.Clone(all), func(v version) bool { return !slices.Contains(c.Between, v.by) })
	return slices.DeleteFunc(slices.Clone(of), func(v version) bool {
		return slices.ContainsFunc(of, func(later version) bool { return later.by != v.by && later.on[v.by] })
	})
}

// involved lists the paths that sides change at the path of a conflict, above it or below it.
func involved(sides []version, p string) []string {
	all := map[string]bool{}
	for _, s := range sides {
		for q := range s.delta {
			if q == p || strings.HasPrefix(q, p+"/") || strings.HasPrefix(p, q+"/") {
				all[q] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Standings returns how the conflicts of paths stand in a result. given is the tree that results from the steps alone.
func (s *Store) Standings(ctx context.Context, base, given, result spec.Digest, steps []session.Step,
	conflicts []session.Conflict,
) ([]session.Standing, error) {
	if len(conflicts) == 0 {
		return nil, nil
	}
	common, all, err := s.sides(ctx, base, steps, conflicts)
	if err != nil {
		return nil, err
	}
	merged, final, err := s.trees(ctx, given, result)
	if err != nil {
		return nil, err
	}
	changed, err := Diff(ctx, common, final)
	if err != nil {
		return nil, err
	}
	var out []session.Standing
	for _, c := range conflicts {
		of := between(all, c)
		paths := involved(of, c.Path)
		c.Between = nil
		for _, one := range of {
			c.Between = append(c.Between, one.by)
		}
		standing := session.Standing{Conflict: c}
		if standing.Given, err = equalAt(ctx, merged, final, paths); err != nil {
			return nil, err
		}
		if standing.Removed, err = removedAt(ctx, of, final, paths); err != nil {
			return nil, err
		}
		for _, one := range of {
			same, err := equalAt(ctx, one.tree, final, paths)
			if err != nil {
				return nil, err
			}
			if same {
				standing.Same = append(standing.Same, c.Name(one.by))
			} else if one.movedIn(changed, paths) {
				standing.Moved = append(standing.Moved, c.Name(one.by))
			}
		}
		out = append(out, standing)
	}
	return out, nil
}

// removedAt reports whether a result has nothing at the paths, although each of the versions has something.
func removedAt(ctx context.Context, of []version, result *Tree, paths []string) (bool, error) {
	for _, one := range of {
		if none, err := isBare(ctx, one.tree, paths); err != nil || none {
			return false, err
		}
	}
	return isBare(ctx, result, paths)
}

// isBare reports whether a tree has nothing but empty files at the paths.
func isBare(ctx context.Context, t *Tree, paths []string) (bool, error) {
	for _, p := range paths {
		if e, ok, err := t.Get(ctx, p); err != nil || ok && (e.Size > 0 || e.Link != "") {
			return false, err
		}
	}
	return true, nil
}

// movedIn reports whether a result has all files of the version that it has at the paths, at other paths.
func (v version) movedIn(changed Delta, paths []string) bool {
	has := map[Entry]bool{}
	for p, c := range changed {
		has[c.Entry] = has[c.Entry] || !c.Deleted && !slices.Contains(paths, p)
	}
	files := 0
	for _, p := range paths {
		c, ok := v.delta[p]
		if !ok || c.Deleted {
			continue
		}
		if files++; !has[c.Entry] {
			return false
		}
	}
	return files > 0
}

// equalAt reports whether two trees have the same at all of the paths.
func equalAt(ctx context.Context, a, b *Tree, paths []string) (bool, error) {
	for _, p := range paths {
		x, inA, err := a.Get(ctx, p)
		if err != nil {
			return false, err
		}
		y, inB, err := b.Get(ctx, p)
		if err != nil {
			return false, err
		}
		if inA != inB || x != y {
			return false, nil
		}
	}
	return true, nil
}

// Sides stores a tree that shows the conflicts to an integrator, below [session.MergeDir]: the files
// of the base and of each side, the changes of each side, and the decisions.
func (s *Store) Sides(ctx context.Context, base spec.Digest, steps []session.Step, conflicts []session.Conflict) (spec.Digest,
	error,
) {
	common, all, err := s.sides(ctx, base, steps, conflicts)
	if err != nil {
		return "", err
	}
	m := Manifest{}
	decisions := map[string]map[string]string{}
	names := map[spec.AssignmentID]string{}
	for _, c := range conflicts {
		of := between(all, c)
		for _, one := range of {
			names[one.by] = c.Name(one.by)
		}
		if c.Path == "" {
			decisions[c.Decision] = map[string]string{}
			for _, step := range steps {
				if v, ok := step.Decisions[c.Decision]; ok && slices.Contains(c.Between, step.By) {
					decisions[c.Decision][c.Name(step.By)] = v
				}
			}
			continue
		}
		for _, p := range involved(of, c.Path) {
			if err := s.show(ctx, m, common, "base", p); err != nil {
				return "", err
			}
			for _, one := range of {
				if err := s.show(ctx, m, one.tree, path.Join("versions", c.Name(one.by)), p); err != nil {
					return "", err
				}
			}
		}
	}
	if err := s.showChanges(ctx, m, common, all, names); err != nil {
		return "", err
	}
	if len(decisions) > 0 {
		text, err := json.MarshalIndent(decisions, "", "  ")
		if err == nil {
			err = s.note(ctx, m, "decisions.json", text)
		}
		if err != nil {
			return "", err
		}
	}
	return s.PutManifest(ctx, m)
}

// showChanges adds the changes of each version that has a name.
func (s *Store) showChanges(ctx context.Context, m Manifest, common *Tree, all []version,
	names map[spec.AssignmentID]string,
) error {
	from, err := s.putTree(ctx, common)
	for _, one := range all {
		if names[one.by] == "" || err != nil {
			continue
		}
		var to spec.Digest
		var diff string
		if to, err = s.putTree(ctx, one.tree); err == nil {
			diff, err = s.UnifiedDiff(ctx, from, to, maxSideDiff)
		}
		if err == nil {
			err = s.note(ctx, m, names[one.by]+".diff", []byte(diff))
		}
	}
	return err
}

// show adds what a tree has at a path. A link is shown as a text: its target is not there.
func (s *Store) show(ctx context.Context, m Manifest, t *Tree, in, p string) error {
	e, ok, err := t.Get(ctx, p)
	switch {
	case err != nil || !ok:
		return err
	case e.Link != "":
		return s.note(ctx, m, path.Join(in, p)+".link", []byte("a link to "+e.Link+"\n"))
	}
	m[path.Join(session.MergeDir, in, p)] = e
	return nil
}

// note adds a text.
func (s *Store) note(ctx context.Context, m Manifest, name string, text []byte) error {
	blob, err := s.PutBlob(ctx, bytes.Clone(text))
	m[path.Join(session.MergeDir, name)] = Entry{SHA256: blob, Size: int64(len(text))}
	return err
}
