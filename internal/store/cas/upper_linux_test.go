package cas_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// upper makes an upper directory by hand: whiteouts for what is removed, opaque directories.
func upper(t *testing.T, files map[string]string, removed, opaque []string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "upper")
	require.NoError(t, os.Mkdir(dir, 0o755))
	writeTree(t, dir, files)
	for _, p := range removed {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, p)), 0o755))
		if err := unix.Mknod(filepath.Join(dir, p), unix.S_IFCHR, 0); err != nil {
			t.Skip("no whiteout can be made here: ", err)
		}
	}
	for _, p := range opaque {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, p), 0o755))
		require.NoError(t, unix.Setxattr(filepath.Join(dir, p), "user.overlay.opaque", []byte("y"), 0))
	}
	return dir
}

// put stores a tree, in which nothing is ignored.
func put(t *testing.T, s *content, files map[string]string) spec.Digest {
	t.Helper()
	m := cas.Manifest{}
	for p, text := range files {
		_, err := s.PutBlob(t.Context(), []byte(text))
		require.NoError(t, err)
		e := file(text)
		e.Executable = strings.HasPrefix(text, "#!")
		m[p] = e
	}
	name, err := s.PutManifest(t.Context(), m)
	require.NoError(t, err)
	return name
}

func TestWhatIsCollectedFromAnUpperDirectory(t *testing.T) {
	t.Parallel()
	lower := files("a run=#!x d/x d/e/y old.tmp d/old.tmp")
	lower["d/.gitignore"] = "*.tmp\n"
	for _, c := range []struct{ name, add, removed, opaque, only, changed, deleted string }{
		{name: "nothing"},
		{name: "copied up, unchanged", add: "a run=#!x d/e/y"},
		{name: "only the mode", add: "run=x", changed: "run"},
		{name: "removed", removed: "a d/e d/absent", deleted: "a d/e/y"},
		{name: "opaque", add: "d/x d/n", opaque: "d", changed: "d/n", deleted: "d/.gitignore d/e/y d/old.tmp"},
		{name: "a file for a directory", add: "d", changed: "d", deleted: "d/.gitignore d/e/y d/old.tmp d/x"},
		{name: "a directory for a file", add: "a/b", changed: "a/b", deleted: "a"},
		{name: "an empty directory for a file", opaque: "a", deleted: "a"},
		{name: "the tree's rules", add: "d/new.tmp d/sub/new.tmp new.tmp d/old.tmp=2", changed: "d/old.tmp new.tmp"},
		{name: "rules removed", add: "d/new.tmp", removed: "d/.gitignore", changed: "d/new.tmp", deleted: "d/.gitignore"},
		{
			name: "rules hidden", add: "d/new.tmp", opaque: "d", changed: "d/new.tmp",
			deleted: "d/.gitignore d/e/y d/old.tmp d/x",
		},
		{name: "some", add: "a=2 d/n", removed: "d/x run", only: "d/**", changed: "d/n", deleted: "d/x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			base := put(t, s, lower)
			dir := upper(t, files(c.add), strings.Fields(c.removed), strings.Fields(c.opaque))
			out := collected(t, s, session.Collect{Base: base, Lower: base, Dir: dir, Only: strings.Fields(c.only)})
			require.Equal(t, strings.Fields(c.changed), out.Changed)
			require.Equal(t, strings.Fields(c.deleted), out.Deleted)
		})
	}
}

func TestAnUpperDirectoryOverAnotherTreeThanTheBase(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	base := snapshot(t, s, map[string]string{"a": "1", "b": "1", "d/x": "1"})
	lower := snapshot(t, s, map[string]string{"a": "2", "d/x": "1", "d/y": "1", "d/kept.tmp": "secret"})
	dir := upper(t, map[string]string{"new.tmp": "1", "d/y": "2", ".gitignore": "*.tmp\n"}, []string{"d/x"}, nil)
	out, err := s.Collect(t.Context(), session.Collect{
		Base: base, Lower: lower, Dir: dir,
		Secrets: secrets.New([]secrets.Secret{{Name: "KEY", Value: "secret"}}),
	})
	require.NoError(t, err)
	require.Equal(t, []string{".gitignore", "a", "d/kept.tmp", "d/y"}, out.Changed)
	require.Equal(t, []string{"b", "d/x"}, out.Deleted)
}

func TestTheLimitsAreThoseOfTheWholeTree(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]cas.Limits{
		`"." exceeds the limit of 3 files`:       {Files: 3},
		`"." makes the tree larger than 6 bytes`: {TreeBytes: 6},
	} {
		s := open(t, t.TempDir(), limits)
		base := snapshot(t, s, map[string]string{"b/y": "22", "c": "33", "gone": "44"})
		dir := upper(t, map[string]string{"a": "11", "b/x": "22"}, []string{"gone"}, nil)
		_, err := s.Collect(t.Context(), session.Collect{Base: base, Lower: base, Dir: dir})
		require.ErrorContains(t, err, name)
		dir = upper(t, map[string]string{"a": "11"}, []string{"gone"}, nil)
		collected(t, s, session.Collect{Base: base, Lower: base, Dir: dir})
	}
}

// Directories that their owner may not enter hide nothing, and are no way to do so.
func TestAnUpperDirectoryThatIsLockedAway(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	base := snapshot(t, s, map[string]string{"d/x": "1", "d/e/y": "1", "f": "1"})
	dir := upper(t, map[string]string{"d/e/new": "1", "f": "2"}, []string{"d/x"}, []string{"d/e"})
	for _, p := range []string{"f", "d/e/new", "d/e", "d"} {
		require.NoError(t, os.Chmod(filepath.Join(dir, p), 0))
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "d"), 0o700); _ = os.Chmod(filepath.Join(dir, "d/e"), 0o700) })
	out := collected(t, s, session.Collect{Base: base, Lower: base, Dir: dir})
	require.Equal(t, []string{"d/e/new", "f"}, out.Changed)
	require.Equal(t, []string{"d/e/y", "d/x"}, out.Deleted)
}
