package cas_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/cas/castest"
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

// changes reads files as "path=content": * after a content makes it executable, - removes the file.
func changes(text string) cas.Delta {
	d := cas.Delta{}
	for _, word := range strings.Fields(text) {
		path, content, _ := strings.Cut(word, "=")
		plain, executable := strings.CutSuffix(content, "*")
		c := cas.Change{Entry: file(plain)}
		if c.Executable = executable; content == "-" {
			c = cas.Change{Deleted: true}
		}
		d[path] = c
	}
	return d
}

// TestFold has steps that are made one after the other: those after @ are the earlier ones that it knew. A conflict is a path and
// two steps.
func TestFold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, base, steps, want, conflicts string }{
		{"nothing", "a=1", "", "a=1", ""},
		{"different files", "", "a=1; b=2", "a=1 b=2", ""},
		{"the same content", "", "a=1; a=1", "a=1", ""},
		{"different contents", "", "a=1; a=2", "a=2", "a 0 1"},
		{"different modes", "", "a=1; a=1*", "a=1*", "a 0 1"},
		{"edit against delete", "a=0", "a=1; a=-", "", "a 0 1"},
		{"delete twice", "a=0", "a=-; a=-", "", ""},
		{"one after the other", "", "a=1; a=2 @0", "a=2", ""},
		{"settled by a third", "", "a=1; a=2; b=3 @01", "a=2 b=3", ""},
		{"not settled by one that knew one", "", "a=1; a=2; b=3 @1", "a=2 b=3", "a 0 1"},
		{"three", "", "a=1; a=2; a=1", "a=1", "a 0 1, a 1 2"},
		{"file then directory", "", "a=1; a/b=2", "a/b=2", "a 0 1"},
		{"directory then file", "", "a/b=1 a/c/d=1; a=2", "a=2", "a 0 1"},
		{"file for directory, knowingly", "", "a/b=1; a/b=- a=2 @0", "a=2", ""},
		{"new file in a moved directory", "a/b=0", "a/b=- z/b=0; a/c/d=2", "a/c/d=2 z/b=0", "a/c/d 0 1"},
		{"new file in one renamed by case", "a/b=0", "a/c=2; a/b=- A/b=0", "a/c=2 A/b=0", "a/c 0 1"},
		{"new file beside one that is removed", "a/b=0 a/x=0", "a/b=-; a/c=2", "a/c=2 a/x=0", ""},
		{"emptied and filled knowingly", "a/b=0", "a/b=-; a/c=2 @0", "a/c=2", ""},
		{"names that differ in case", "", "Docs/a=1; docs/b=2", "Docs/a=1 docs/b=2", "Docs 0 1, docs 0 1"},
		{
			"names that differ in their Unicode form", "", "caf\u00e9=1; cafe\u0301=2", "caf\u00e9=1 cafe\u0301=2",
			"cafe\u0301 0 1, caf\u00e9 0 1",
		},
		{"names that differed before", "Docs/x=0 docs/x=0", "Docs/x=1; docs/x=2", "Docs/x=1 docs/x=2", ""},
		{"new file in a replaced directory", "a/b=0", "a/b=- a=1; a/c=2", "a/c=2", "a 0 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			var steps []session.Step
			for i, text := range strings.Split(c.steps, ";") {
				text, known, _ := strings.Cut(text, "@")
				var on []int
				for _, step := range known {
					on = append(on, int(step-'0'))
				}
				steps = append(steps, step(t, s, strconv.Itoa(i), changes(text), on...))
			}
			folded, err := s.Fold(t.Context(), putManifest(t, s, castest.Apply(nil, changes(c.base))), steps)
			require.NoError(t, err)
			require.Equal(t, castest.Apply(nil, changes(c.want)), manifest(t, s, folded.Manifest))
			var got []string
			for _, conflict := range folded.Conflicts {
				got = append(got, strings.Join([]string{conflict.Path, conflict.Between[0].Persona, conflict.Between[1].Persona}, " "))
			}
			require.Equal(t, c.conflicts, strings.Join(got, ", "))
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
