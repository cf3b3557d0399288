package cas

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// maxSideDiff bounds the diff of one side of a conflict, in bytes.
const maxSideDiff = 256 * 1024

// version is the tree of one persona, from the same base as the others. It is not stored.
type version struct {
	by    spec.AssignmentID
	delta Delta
	tree  *Tree
}

func (s trees) sides(ctx context.Context, base *Tree, steps []session.Step) ([]version, error) {
	deltas, err := s.deltas(ctx, steps)
	if err != nil {
		return nil, err
	}
	out := make([]version, len(steps))
	for i, d := range deltas {
		out[i] = version{by: steps[i].By, delta: d, tree: base.copied()}
		if err := out[i].tree.apply(ctx, d); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// between selects the sides of a conflict.
func between(all []version, c session.Conflict) []version {
	return slices.DeleteFunc(slices.Clone(all), func(s version) bool { return !slices.Contains(c.Between, s.by) })
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

// Standings returns how the conflicts of paths stand in a result. The steps were all made on the
// base, and given is the tree that results from them alone.
func (s trees) Standings(ctx context.Context, base, given, result spec.Digest, steps []session.Step, conflicts []session.Conflict) ([]session.Standing, error) {
	before, err := s.Tree(ctx, base)
	if err != nil {
		return nil, err
	}
	all, err := s.sides(ctx, before, steps)
	if err != nil {
		return nil, err
	}
	merged, err := s.Tree(ctx, given)
	if err != nil {
		return nil, err
	}
	final, err := s.Tree(ctx, result)
	if err != nil {
		return nil, err
	}
	var changed Delta
	if len(conflicts) > 0 {
		if changed, err = s.diff(ctx, base, result); err != nil {
			return nil, err
		}
	}
	var out []session.Standing
	for _, c := range conflicts {
		of := between(all, c)
		paths := involved(of, c.Path)
		standing := session.Standing{Conflict: c}
		if standing.Given, err = equalAt(ctx, merged, final, paths); err != nil {
			return nil, err
		}
		for _, one := range of {
			same, err := equalAt(ctx, one.tree, final, paths)
			if err != nil {
				return nil, err
			}
			if same {
				standing.Same = append(standing.Same, one.by.Persona)
			} else if one.movedIn(changed, paths) {
				standing.Moved = append(standing.Moved, one.by.Persona)
			}
		}
		out = append(out, standing)
	}
	return out, nil
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
func (s trees) Sides(ctx context.Context, base spec.Digest, steps []session.Step, conflicts []session.Conflict) (spec.Digest, error) {
	before, err := s.Tree(ctx, base)
	if err != nil {
		return "", err
	}
	all, err := s.sides(ctx, before, steps)
	if err != nil {
		return "", err
	}
	m := Manifest{}
	decisions := map[string]map[string]string{}
	for _, c := range conflicts {
		of := between(all, c)
		if c.Path == "" {
			decisions[c.Decision] = map[string]string{}
			for i, step := range steps {
				if v, ok := step.Decisions[c.Decision]; ok && slices.Contains(c.Between, all[i].by) {
					decisions[c.Decision][step.By.Persona] = v
				}
			}
			continue
		}
		for _, p := range involved(of, c.Path) {
			if err := s.show(ctx, m, before, "base", p); err != nil {
				return "", err
			}
			for _, one := range of {
				if err := s.show(ctx, m, one.tree, path.Join("versions", one.by.Persona), p); err != nil {
					return "", err
				}
			}
		}
	}
	for _, one := range all {
		name, err := s.putTree(ctx, one.tree)
		if err != nil {
			return "", err
		}
		diff, err := s.UnifiedDiff(ctx, base, name, maxSideDiff)
		if err == nil {
			err = s.note(ctx, m, one.by.Persona+".diff", []byte(diff))
		}
		if err != nil {
			return "", err
		}
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

// show adds what a tree has at a path. A link is shown as a text: its target is not there.
func (s trees) show(ctx context.Context, m Manifest, t *Tree, in, p string) error {
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
func (s trees) note(ctx context.Context, m Manifest, name string, text []byte) error {
	blob, err := s.PutBlob(ctx, bytes.Clone(text))
	m[path.Join(session.MergeDir, name)] = Entry{SHA256: blob, Size: int64(len(text))}
	return err
}
