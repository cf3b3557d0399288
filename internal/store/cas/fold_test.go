package cas_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

func id(persona string) spec.AssignmentID {
	return spec.AssignmentID{Phase: "build", Persona: persona}
}

// step stores a delta as a step made with knowledge of others.
func step(t testing.TB, s *content, persona string, d cas.Delta, on ...int) session.Step {
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
	set := func(content string) cas.Change { return cas.Change{Entry: file(content)} }
	gone := cas.Change{Deleted: true}
	exec := set("1")
	exec.Executable = true
	type made struct {
		delta cas.Delta
		on    []int
	}
	for _, c := range []struct {
		name  string
		base  cas.Manifest
		steps []made
		want  cas.Manifest
		// conflicts as path and the two steps
		conflicts []string
	}{
		{name: "nothing", base: cas.Manifest{"a": file("1")}, want: cas.Manifest{"a": file("1")}},
		{
			name: "different files", steps: []made{{delta: cas.Delta{"a": set("1")}}, {delta: cas.Delta{"b": set("2")}}},
			want: cas.Manifest{"a": file("1"), "b": file("2")},
		},
		{
			name: "the same content", steps: []made{{delta: cas.Delta{"a": set("1")}}, {delta: cas.Delta{"a": set("1")}}},
			want: cas.Manifest{"a": file("1")},
		},
		{
			name: "different contents", steps: []made{{delta: cas.Delta{"a": set("1")}}, {delta: cas.Delta{"a": set("2")}}},
			want: cas.Manifest{"a": file("2")}, conflicts: []string{"a 0 1"},
		},
		{
			name: "different modes", steps: []made{{delta: cas.Delta{"a": set("1")}}, {delta: cas.Delta{"a": exec}}},
			want: cas.Manifest{"a": exec.Entry}, conflicts: []string{"a 0 1"},
		},
		{name: "edit against delete", base: cas.Manifest{"a": file("0")}, steps: []made{
			{delta: cas.Delta{"a": set("1")}},
			{delta: cas.Delta{"a": gone}},
		}, want: cas.Manifest{}, conflicts: []string{"a 0 1"}},
		{
			name: "delete twice", base: cas.Manifest{"a": file("0")},
			steps: []made{{delta: cas.Delta{"a": gone}}, {delta: cas.Delta{"a": gone}}}, want: cas.Manifest{},
		},
		{
			name: "one after the other", steps: []made{{delta: cas.Delta{"a": set("1")}}, {delta: cas.Delta{"a": set("2")}, on: []int{0}}},
			want: cas.Manifest{"a": file("2")},
		},
		{name: "settled by a third", steps: []made{
			{delta: cas.Delta{"a": set("1")}},
			{delta: cas.Delta{"a": set("2")}},
			{delta: cas.Delta{"b": set("3")}, on: []int{0, 1}},
		}, want: cas.Manifest{"a": file("2"), "b": file("3")}},
		{
			name: "not settled by one that knew one", steps: []made{
				{delta: cas.Delta{"a": set("1")}},
				{delta: cas.Delta{"a": set("2")}},
				{delta: cas.Delta{"b": set("3")}, on: []int{1}},
			}, want: cas.Manifest{"a": file("2"), "b": file("3")},
			conflicts: []string{"a 0 1"},
		},
		{name: "three", steps: []made{
			{delta: cas.Delta{"a": set("1")}},
			{delta: cas.Delta{"a": set("2")}},
			{delta: cas.Delta{"a": set("1")}},
		}, want: cas.Manifest{"a": file("1")}, conflicts: []string{"a 0 1", "a 1 2"}},
		{
			name: "file then directory", steps: []made{{delta: cas.Delta{"a": set("1")}}, {delta: cas.Delta{"a/b": set("2")}}},
			want: cas.Manifest{"a/b": file("2")}, conflicts: []string{"a 0 1"},
		},
		{name: "directory then file", steps: []made{
			{delta: cas.Delta{"a/b": set("1"), "a/c/d": set("1")}},
			{delta: cas.Delta{"a": set("2")}},
		}, want: cas.Manifest{"a": file("2")}, conflicts: []string{"a 0 1"}},
		{name: "file for directory, knowingly", steps: []made{
			{delta: cas.Delta{"a/b": set("1")}},
			{delta: cas.Delta{"a/b": gone, "a": set("2")}, on: []int{0}},
		}, want: cas.Manifest{"a": file("2")}},
		{
			name: "new file in a directory that another moved", base: cas.Manifest{"a/b": file("0")},
			steps: []made{{delta: cas.Delta{"a/b": gone, "z/b": set("0")}}, {delta: cas.Delta{"a/c/d": set("2")}}},
			want:  cas.Manifest{"a/c/d": file("2"), "z/b": file("0")}, conflicts: []string{"a/c/d 0 1"},
		},
		{
			name: "new file in a directory that another renamed by case", base: cas.Manifest{"a/b": file("0")},
			steps: []made{{delta: cas.Delta{"a/c": set("2")}}, {delta: cas.Delta{"a/b": gone, "A/b": set("0")}}},
			want:  cas.Manifest{"a/c": file("2"), "A/b": file("0")}, conflicts: []string{"a/c 0 1"},
		},
		{
			name: "new file beside one that another removed", base: cas.Manifest{"a/b": file("0"), "a/x": file("0")},
			steps: []made{{delta: cas.Delta{"a/b": gone}}, {delta: cas.Delta{"a/c": set("2")}}},
			want:  cas.Manifest{"a/c": file("2"), "a/x": file("0")},
		},
		{
			name: "a directory is emptied and filled knowingly", base: cas.Manifest{"a/b": file("0")},
			steps: []made{{delta: cas.Delta{"a/b": gone}}, {delta: cas.Delta{"a/c": set("2")}, on: []int{0}}},
			want:  cas.Manifest{"a/c": file("2")},
		},
		{
			name:  "names that differ in case",
			steps: []made{{delta: cas.Delta{"Docs/a": set("1")}}, {delta: cas.Delta{"docs/b": set("2")}}},
			want:  cas.Manifest{"Docs/a": file("1"), "docs/b": file("2")}, conflicts: []string{"Docs 0 1", "docs 0 1"},
		},
		{
			name:  "names that differ in their Unicode form",
			steps: []made{{delta: cas.Delta{"caf\u00e9": set("1")}}, {delta: cas.Delta{"cafe\u0301": set("2")}}},
			want:  cas.Manifest{"caf\u00e9": file("1"), "cafe\u0301": file("2")}, conflicts: []string{"cafe\u0301 0 1", "caf\u00e9 0 1"},
		},
		{
			name: "names that differed in case before", base: cas.Manifest{"Docs/x": file("0"), "docs/x": file("0")},
			steps: []made{{delta: cas.Delta{"Docs/x": set("1")}}, {delta: cas.Delta{"docs/x": set("2")}}},
			want:  cas.Manifest{"Docs/x": file("1"), "docs/x": file("2")},
		},
		{
			name: "new file in a directory that another replaced", base: cas.Manifest{"a/b": file("0")},
			steps: []made{{delta: cas.Delta{"a/b": gone, "a": set("1")}}, {delta: cas.Delta{"a/c": set("2")}}},
			want:  cas.Manifest{"a/c": file("2")}, conflicts: []string{"a 0 1"},
		},
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

func TestArtifactsNameTheirLastAuthor(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	steps := []session.Step{
		step(t, s, "a", cas.Delta{"x": {Entry: file("1")}, "y": {Entry: file("1")}, "l": {Entry: cas.Entry{Link: "x"}}}),
		step(t, s, "b", cas.Delta{"x": {Entry: file("22")}, "y": {Deleted: true}}, 0),
	}
	got, err := s.Artifacts(t.Context(), steps)
	require.NoError(t, err)
	require.Equal(t, []session.Artifact{
		{Path: "l", AssignmentID: id("a")},
		{Path: "x", SHA256: sha([]byte("22")), Size: 2, AssignmentID: id("b")},
	}, got)
}
