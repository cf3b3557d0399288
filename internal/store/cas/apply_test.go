package cas_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
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
