package store_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

func id(persona string) spec.AssignmentID {
	return spec.AssignmentID{Phase: "build", Persona: persona}
}

// step stores a delta as a step made with knowledge of others.
func step(t testing.TB, s *store.Store, persona string, d store.Delta, on ...int) session.Step {
	t.Helper()
	name, err := s.PutDelta(t.Context(), d)
	require.NoError(t, err)
	known := map[int]bool{}
	for _, i := range on {
		known[i] = true
	}
	return session.Step{By: id(persona), Work: session.Work{Delta: name}, On: known}
}

func TestFold(t *testing.T) {
	t.Parallel()
	set := func(content string) store.Change { return store.Change{Entry: file(content)} }
	gone := store.Change{Deleted: true}
	exec := set("1")
	exec.Executable = true
	type made struct {
		delta store.Delta
		on    []int
	}
	for _, c := range []struct {
		name  string
		base  store.Manifest
		steps []made
		want  store.Manifest
		// conflicts as path and the two steps
		conflicts []string
	}{
		{name: "nothing", base: store.Manifest{"a": file("1")}, want: store.Manifest{"a": file("1")}},
		{name: "different files", steps: []made{{delta: store.Delta{"a": set("1")}}, {delta: store.Delta{"b": set("2")}}}, want: store.Manifest{"a": file("1"), "b": file("2")}},
		{name: "the same content", steps: []made{{delta: store.Delta{"a": set("1")}}, {delta: store.Delta{"a": set("1")}}}, want: store.Manifest{"a": file("1")}},
		{name: "different contents", steps: []made{{delta: store.Delta{"a": set("1")}}, {delta: store.Delta{"a": set("2")}}}, want: store.Manifest{"a": file("2")}, conflicts: []string{"a 0 1"}},
		{name: "different modes", steps: []made{{delta: store.Delta{"a": set("1")}}, {delta: store.Delta{"a": exec}}}, want: store.Manifest{"a": exec.Entry}, conflicts: []string{"a 0 1"}},
		{name: "edit against delete", base: store.Manifest{"a": file("0")}, steps: []made{{delta: store.Delta{"a": set("1")}}, {delta: store.Delta{"a": gone}}}, want: store.Manifest{}, conflicts: []string{"a 0 1"}},
		{name: "delete twice", base: store.Manifest{"a": file("0")}, steps: []made{{delta: store.Delta{"a": gone}}, {delta: store.Delta{"a": gone}}}, want: store.Manifest{}},
		{name: "one after the other", steps: []made{{delta: store.Delta{"a": set("1")}}, {delta: store.Delta{"a": set("2")}, on: []int{0}}}, want: store.Manifest{"a": file("2")}},
		{name: "settled by a third", steps: []made{{delta: store.Delta{"a": set("1")}}, {delta: store.Delta{"a": set("2")}}, {delta: store.Delta{"b": set("3")}, on: []int{0, 1}}}, want: store.Manifest{"a": file("2"), "b": file("3")}},
		{name: "not settled by one that knew one", steps: []made{{delta: store.Delta{"a": set("1")}}, {delta: store.Delta{"a": set("2")}}, {delta: store.Delta{"b": set("3")}, on: []int{1}}}, want: store.Manifest{"a": file("2"), "b": file("3")}, conflicts: []string{"a 0 1"}},
		{name: "three", steps: []made{{delta: store.Delta{"a": set("1")}}, {delta: store.Delta{"a": set("2")}}, {delta: store.Delta{"a": set("1")}}}, want: store.Manifest{"a": file("1")}, conflicts: []string{"a 0 1", "a 1 2"}},
		{name: "file then directory", steps: []made{{delta: store.Delta{"a": set("1")}}, {delta: store.Delta{"a/b": set("2")}}}, want: store.Manifest{"a/b": file("2")}, conflicts: []string{"a 0 1"}},
		{name: "directory then file", steps: []made{{delta: store.Delta{"a/b": set("1"), "a/c/d": set("1")}}, {delta: store.Delta{"a": set("2")}}}, want: store.Manifest{"a": file("2")}, conflicts: []string{"a 0 1"}},
		{name: "file for directory, knowingly", steps: []made{{delta: store.Delta{"a/b": set("1")}}, {delta: store.Delta{"a/b": gone, "a": set("2")}, on: []int{0}}}, want: store.Manifest{"a": file("2")}},
		{name: "new file in a directory that another replaced", base: store.Manifest{"a/b": file("0")}, steps: []made{{delta: store.Delta{"a/b": gone, "a": set("1")}}, {delta: store.Delta{"a/c": set("2")}}}, want: store.Manifest{"a/c": file("2")}, conflicts: []string{"a 0 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			base, err := s.PutManifest(t.Context(), c.base)
			require.NoError(t, err)
			var steps []session.Step
			for i, m := range c.steps {
				steps = append(steps, step(t, s, string(rune('0'+i)), m.delta, m.on...))
			}
			folded, err := s.Fold(t.Context(), base, steps)
			require.NoError(t, err)
			m, err := s.Manifest(t.Context(), folded.Manifest)
			require.NoError(t, err)
			require.Equal(t, c.want, m)
			var got []string
			for _, conflict := range folded.Conflicts {
				got = append(got, strings.Join([]string{conflict.Path, conflict.Between[0].Persona, conflict.Between[1].Persona}, " "))
			}
			require.Equal(t, c.conflicts, got)
		})
	}
}

// naiveFold is Fold without any cleverness.
func naiveFold(base store.Manifest, steps []session.Step, deltas []store.Delta) (store.Manifest, map[string]bool) {
	out := maps.Clone(base)
	under := func(p, dir string) bool { return strings.HasPrefix(p, dir+"/") }
	for _, d := range deltas {
		for p, c := range d {
			if c.Deleted {
				delete(out, p)
				continue
			}
			maps.DeleteFunc(out, func(q string, _ store.Entry) bool { return under(q, p) || under(p, q) })
			out[p] = c.Entry
		}
	}
	conflicts := map[string]bool{}
	for j := range deltas {
		for i := range j {
			if !session.Unsettled(steps, i, j) {
				continue
			}
			for p, a := range deltas[i] {
				for q, b := range deltas[j] {
					switch {
					case p == q && a != b:
						conflicts[p] = true
					case a.Deleted || b.Deleted:
					case under(p, q):
						conflicts[q] = true
					case under(q, p):
						conflicts[p] = true
					}
				}
			}
		}
	}
	return out, conflicts
}

func TestFoldAgainstANaiveModel(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 4))
		base := randomTree(r)
		var deltas []store.Delta
		var steps []session.Step
		for i := range 1 + r.IntN(4) {
			var on []int
			for j := range i {
				if r.IntN(2) == 0 {
					on = append(on, j)
				}
			}
			deltas = append(deltas, store.Diff(randomTree(r), randomTree(r)))
			steps = append(steps, step(t, s, string(rune('a'+i)), deltas[i], on...))
		}
		name, err := s.PutManifest(t.Context(), base)
		require.NoError(t, err)
		folded, err := s.Fold(t.Context(), name, steps)
		require.NoError(t, err)
		got, err := s.Manifest(t.Context(), folded.Manifest)
		require.NoError(t, err)
		want, conflicts := naiveFold(base, steps, deltas)
		require.Equal(t, want, got, "seed %d", seed)
		found := map[string]bool{}
		for _, c := range folded.Conflicts {
			found[c.Path] = true
		}
		require.Equal(t, conflicts, found, "seed %d", seed)

		artifacts, err := s.Artifacts(t.Context(), steps)
		require.NoError(t, err)
		var paths []string
		for _, a := range artifacts {
			paths = append(paths, a.Path)
			require.Equal(t, got[a.Path].SHA256, a.SHA256, "seed %d", seed)
		}
		alone, _ := naiveFold(store.Manifest{}, steps, deltas)
		require.Equal(t, slices.Sorted(maps.Keys(alone)), append([]string(nil), paths...), "seed %d", seed)
	}
}

func TestArtifactsNameTheirLastAuthor(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	steps := []session.Step{
		step(t, s, "a", store.Delta{"x": {Entry: file("1")}, "y": {Entry: file("1")}, "l": {Entry: store.Entry{Link: "x"}}}),
		step(t, s, "b", store.Delta{"x": {Entry: file("22")}, "y": {Deleted: true}}, 0),
	}
	got, err := s.Artifacts(t.Context(), steps)
	require.NoError(t, err)
	require.Equal(t, []session.Artifact{
		{Path: "l", AssignmentID: id("a")},
		{Path: "x", SHA256: sha([]byte("22")), Size: 2, AssignmentID: id("b")},
	}, got)
}
