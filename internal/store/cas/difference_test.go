package cas_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/cas/castest"
)

// apply plans and, unless something is in conflict, writes the difference of two
// trees into a directory. It returns the conflicts by path.
func apply(t *testing.T, s *content, dir string, from, to spec.Digest, wanted ...string) map[string]string {
	t.Helper()
	a, err := s.PlanApply(t.Context(), dir, from, to, wanted)
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	conflicts := map[string]string{}
	for _, l := range a.Paths {
		if l.Conflict != "" {
			conflicts[l.Path] = l.Conflict
		}
	}
	if len(conflicts) == 0 {
		require.NoError(t, a.Write(t.Context()))
	}
	return conflicts
}

func TestADifferenceIsMadeInADirectory(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	before := map[string]string{
		"keep": "keep\n", "edit": "one\n", "run": "# x\n", "stop": "#! x\n", "gone/deep/file": "bye\n", "link": "-> keep",
		"to-link": "text\n", "to-file": "-> keep", "to-dir": "file\n", "dir/a": "a\n", "dir/b/c": "c\n", "empty": "",
	}
	after := map[string]string{
		"keep": "keep\n", "edit": "two\n", "run": "#! x\n", "stop": "# x\n", "link": "-> edit",
		"to-link": "-> keep", "to-file": "text\n", "to-dir/x/y": "y\n", "dir": "file\n", "new/deep/file": "hi\n", "filled": "",
	}
	from, to := snapshot(t, s, before), snapshot(t, s, after)
	dir := t.TempDir()
	writeTree(t, dir, before)
	writeTree(t, dir, map[string]string{"mine": "mine\n", "new/mine": "mine\n"})
	require.NoError(t, os.Chmod(filepath.Join(dir, "edit"), 0o600))
	require.Empty(t, apply(t, s, dir, from, to))

	want := map[string]string{"mine": "mine\n", "new/mine": "mine\n"}
	for p, content := range after {
		want[p] = content
	}
	require.Equal(t, want, readTree(t, dir))
	for name, executable := range map[string]bool{"run": true, "stop": false} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, executable, info.Mode()&0o100 != 0, name)
	}
	info, err := os.Stat(filepath.Join(dir, "edit"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode(), "the permissions are the directory's")
	require.NoDirExists(t, filepath.Join(dir, "gone"), "what is empty goes, too")

	require.Empty(t, apply(t, s, dir, from, to), "once more changes nothing")
	require.Equal(t, want, readTree(t, dir))
	require.Empty(t, apply(t, s, dir, to, from), "and back")
	delete(want, "mine")
	require.Equal(t, "one\n", readTree(t, dir)["edit"])
}

func TestLocalChangesAreConflicts(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	from, to := snapshot(t, s, files("a=a b=b c=c d/x=x")), snapshot(t, s, files("a=A c=c new=new d/x=X d/y=Y"))
	outside := t.TempDir()
	for name, tt := range map[string]struct {
		files  string
		want   map[string]string
		wanted []string
	}{
		"changed on both sides": {
			"a=mine b=b d/x=x", map[string]string{"a": "was changed in the directory and by the session"}, nil,
		},
		"changed to the same":           {"a=A b=b d/x=x new=new", nil, nil},
		"changed where the session not": {"a=a b=b c=mine d/x=x", nil, nil},
		"gone where it was changed": {
			"b=b d/x=x", map[string]string{"a": "was removed in the directory, and the session changed it"}, nil,
		},
		"gone where it was removed": {"a=a d/x=x", nil, nil},
		"changed where it was removed": {
			"a=a b=mine d/x=x", map[string]string{"b": "was changed in the directory, and the session removed it"}, nil,
		},
		"there where it was made": {
			"a=a b=b new=mine d/x=x", map[string]string{"new": "already exists in the directory with other content"}, nil,
		},
		"executable":             {"a=a b=b d/x=#!", map[string]string{"d/x": "was changed in the directory and by the session"}, nil},
		"a link for a file":      {"a=->b b=b d/x=x", map[string]string{"a": "is a link to b there, and was a file"}, nil},
		"a directory for a file": {"a/mine=m b=b d/x=x", map[string]string{"a": "is a directory there, with a/mine"}, nil},
		"a file for a directory": {"a=a b=b d=d", map[string]string{
			"d/x": "d is a file in the directory, not a directory", "d/y": "d is a file in the directory, not a directory",
		}, nil},
		"a link out for a directory": {"a=a b=b d=->" + outside, map[string]string{
			"d/x": "d is a link in the directory, not a directory", "d/y": "d is a link in the directory, not a directory",
		}, nil},
		"a link within for a directory": {"a=a b=b d=->e e/x=x", map[string]string{
			"d/x": "d is a link in the directory, not a directory", "d/y": "d is a link in the directory, not a directory",
		}, nil},
		"selected away from its trouble": {"a=mine b=b d/x=x", nil, []string{"d", "new"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeTree(t, dir, files(tt.files))
			conflicts := apply(t, s, dir, from, to, tt.wanted...)
			if tt.want == nil {
				require.Empty(t, conflicts)
				require.Equal(t, "X", readTree(t, dir)["d/x"])
				return
			}
			require.Equal(t, tt.want, conflicts)
			require.Equal(t, files(tt.files), readTree(t, dir), "nothing is written")
		})
	}
	require.Empty(t, readTree(t, outside))
}

func TestABlockedPathIsNeverWritten(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	from, to := snapshot(t, s, nil), snapshot(t, s, map[string]string{"a": "a\n", "d/x": "x\n"})
	dir, outside := t.TempDir(), t.TempDir()
	writeTree(t, dir, map[string]string{"a": "mine\n", "d": "-> " + outside})
	a, err := s.PlanApply(t.Context(), dir, from, to, nil)
	require.NoError(t, err)
	require.ErrorContains(t, a.Write(t.Context()), "d/x d is a link in the directory")
	require.NoError(t, a.Close())
	require.Equal(t, "mine\n", readTree(t, dir)["a"])

	require.NoError(t, os.Remove(filepath.Join(dir, "d")))
	a, err = s.PlanApply(t.Context(), dir, from, to, nil)
	require.NoError(t, err)
	require.Equal(t, "already exists in the directory with other content", a.Paths[0].Conflict)
	require.NoError(t, a.Write(t.Context()), "who writes has decided")
	require.NoError(t, a.Close())
	require.Equal(t, map[string]string{"a": "a\n", "d/x": "x\n"}, readTree(t, dir))
}

// A person continues working while a long difference is made.
func TestWhatChangesAfterThePlanIsKept(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	before := map[string]string{"edit": "one\n", "gone": "bye\n", "z": "z\n"}
	from, to := snapshot(t, s, before), snapshot(t, s, map[string]string{"edit": "two\n", "new": "new\n", "z": "Z\n"})
	for name, mine := range map[string]map[string]string{
		"a file that the session has changed": {"edit": "mine\n"},
		"one that it has removed":             {"gone": "mine\n"},
		"one that it has made":                {"new": "mine\n"},
		"a directory in its place":            {"new/mine": "mine\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeTree(t, dir, before)
			a, err := s.PlanApply(t.Context(), dir, from, to, nil)
			require.NoError(t, err)
			defer func() { require.NoError(t, a.Close()) }()
			writeTree(t, dir, mine)
			require.ErrorContains(t, a.Write(t.Context()), "during the comparison")
			for p, content := range mine {
				require.Equal(t, content, readTree(t, dir)[p])
			}
		})
	}
}

// TestAHalfMadeDifferenceIsFinished stops after each file, as a crash does.
func TestAHalfMadeDifferenceIsFinished(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	before := map[string]string{"a": "a\n", "b": "b\n", "d/x": "x\n", "d/y": "y\n", "f": "f\n"}
	after := map[string]string{"a": "A\n", "d": "now a file\n", "f/z": "z\n", "new": "-> a"}
	from, to := snapshot(t, s, before), snapshot(t, s, after)
	a, err := s.PlanApply(t.Context(), t.TempDir(), from, to, nil)
	require.NoError(t, err)
	require.NoError(t, a.Close())
	for i := range a.Paths {
		dir := t.TempDir()
		writeTree(t, dir, before)
		var first []string
		for _, l := range a.Paths {
			first = append(first, l.Path)
		}
		// Removals come first; a part of them, then of the rest, is a crash's.
		for _, p := range first[:i] {
			if _, stays := after[p]; !stays {
				require.NoError(t, os.Remove(filepath.Join(dir, p)))
			}
		}
		writeTree(t, dir, map[string]string{".maestro-apply-ca978112ca1bbdca": "half"}) // that of "a"
		require.Empty(t, apply(t, s, dir, from, to))
		require.Equal(t, after, readTree(t, dir))
	}
}

func TestALostContentIsFoundBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	from, to := snapshot(t, s, nil), snapshot(t, s, map[string]string{"a": "a\n", "b": "b\n"})
	m := manifest(t, s, to)
	name := string(m["b"].SHA256)
	require.NoError(t, os.Remove(filepath.Join(s.Dir(), "blobs", "sha256", name[:2], name[2:])))
	_, err := s.PlanApply(t.Context(), t.TempDir(), from, to, nil)
	require.ErrorIs(t, err, session.ErrNotFound)
}

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

// patchOf is the patch between two trees.
func patchOf(t *testing.T, s *content, from, to spec.Digest, o cas.PatchOptions) string {
	t.Helper()
	var b strings.Builder
	for d, err := range s.Patch(t.Context(), from, to, o) {
		require.NoError(t, err)
		b.WriteString(d.Text)
	}
	return b.String()
}

// applied writes a tree, has a program apply a patch to it, and returns the result.
func applied(t *testing.T, before map[string]string, patch string, argv ...string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	writeTree(t, dir, before)
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(patch)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, patch)
	for path, content := range readTree(t, dir) {
		info, err := os.Lstat(filepath.Join(dir, path))
		require.NoError(t, err)
		require.Equal(t, strings.HasPrefix(content, "#!"), info.Mode().IsRegular() && info.Mode()&0o100 != 0, path)
	}
	return readTree(t, dir)
}

func TestGitAppliesAPatch(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	random := make([]byte, 3<<20)
	for i := range random {
		random[i] = byte(rand.New(rand.NewPCG(1, uint64(i/4096))).Uint32()) // compressible, and no text
	}
	big := strings.Repeat("a line of a large text\n", 60_000)
	tests := map[string]struct{ before, after map[string]string }{
		"edits, files that come and go": {
			map[string]string{"keep": "same\n", "edit": "one\ntwo\n", "gone/deep/file": "bye\n"},
			map[string]string{"keep": "same\n", "edit": "one\nthree\n", "new/deep/file": "hi\n"},
		},
		"empty files": {
			map[string]string{"gone": "", "fills": "", "drains": "x\n"},
			map[string]string{"new": "", "fills": "x\n", "drains": ""},
		},
		"no newline at the end": {
			map[string]string{"loses": "a\nb\n", "gains": "a\nb", "keeps": "a\nb", "gone": "x"},
			map[string]string{"loses": "a\nb", "gains": "a\nb\n", "keeps": "c\nb", "new": "x"},
		},
		"modes": {
			map[string]string{"a": "# !\n", "b": "#! x\n"},
			map[string]string{"a": "#! x\n", "b": "# !\n", "c": "#! y\n"},
		},
		"links": {
			map[string]string{"moves": "-> a", "gone": "-> b", "becomes-file": "-> a", "becomes-link": "text\n"},
			map[string]string{"moves": "-> b", "new": "-> c", "becomes-file": "text\n", "becomes-link": "-> a"},
		},
		"names": {
			map[string]string{"with space": "a\n", `quo"ted`: "a\n", `back\slash`: "a\n", "ünï": "a\n", "gone space": "x\n"},
			map[string]string{
				"with space": "b\n", `quo"ted`: "b\n", `back\slash`: "b\n", "ünï": "b\n", "new space": "x\n",
				"tail ": "x\n",
			},
		},
		"a file in place of a directory, and back": {
			map[string]string{"dir/a": "a\n", "dir/sub/b": "b\n", "file": "f\n"},
			map[string]string{"dir": "now a file\n", "file/a": "f\n", "file/sub/b": "b\n"},
		},
		"binaries and large texts": {
			map[string]string{"edit": "a\x00b", "gone": "\xff\xfe", "large": big, "data": string(random)},
			map[string]string{"edit": "a\x00c", "new": "\x00", "large": big + "end\n", "data": string(random[:len(random)-1]) + "!"},
		},
		"carriage returns": {
			map[string]string{"dos": "a\r\nb\r\n"},
			map[string]string{"dos": "a\r\nc\r\n", "old mac": "a\rb"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := snapshot(t, s, tt.before), snapshot(t, s, tt.after)
			forth := patchOf(t, s, from, to, cas.PatchOptions{Binary: true})
			require.Equal(t, tt.after, applied(t, tt.before, forth, "git", "apply", "-"))
			require.Equal(t, tt.before, applied(t, tt.after, forth, "git", "apply", "--reverse", "-"))
			require.Equal(t, tt.before, applied(t, tt.after, patchOf(t, s, to, from, cas.PatchOptions{Binary: true}), "git", "apply", "-"))
		})
	}
}

func TestAPatchNamesWhatItCannotShow(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	from := snapshot(t, s, map[string]string{"data file": "a\x00b", "docs/a.md": "a\n", "docs/b.md": "b\n"})
	to := snapshot(t, s, map[string]string{"data file": "a\x00c", "docs/a.md": "A\n", "docs/b.md": "B\n", "src/c.go": "c\n"})

	var counted []string
	for d, err := range s.Patch(t.Context(), from, to, cas.PatchOptions{}) {
		require.NoError(t, err)
		counted = append(counted, fmt.Sprintf("%s +%d -%d %t", d.Path, d.Added, d.Removed, d.Opaque))
	}
	require.Equal(t, []string{"data file +0 -0 true", "docs/a.md +1 -1 false", "docs/b.md +1 -1 false", "src/c.go +1 -0 false"},
		counted)
	whole := patchOf(t, s, from, to, cas.PatchOptions{})
	require.Contains(t, whole, "Binary files a/data file and b/data file differ\n")
	part := patchOf(t, s, from, to, cas.PatchOptions{Paths: []string{"docs/a*", "src"}})
	require.Equal(t, 2, strings.Count(part, "diff --git"), part)
	require.Contains(t, part, "diff --git a/docs/a.md b/docs/a.md\nindex ")
	for _, err := range s.Patch(t.Context(), from, to, cas.PatchOptions{Paths: []string{"nowhere"}}) {
		require.ErrorIs(t, err, session.ErrNotFound)
	}
}

func TestUnifiedDiffTellsWhatChanged(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	from := snapshot(t, s, map[string]string{
		"keep.txt": "same\n", "edit.txt": "one\ntwo\n", "gone.txt": "bye\n",
		"data.bin": "a\x00b",
	})
	to := snapshot(t, s, map[string]string{
		"keep.txt": "same\n", "edit.txt": "one\nthree\n", "new.txt": "hello\n",
		"data.bin": "a\x00c",
	})

	short, err := s.UnifiedDiff(t.Context(), from, to, 240)
	require.NoError(t, err)
	require.LessOrEqual(t, len(short), 280)
	require.True(t, strings.HasPrefix(short, "diff --git a/data.bin"), short)
	require.Contains(t, short, "edit.txt: changed; the difference is left out here")
}
