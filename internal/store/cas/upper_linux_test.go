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
	lower := map[string]string{
		"a": "1", "run": "#!x", "d/x": "1", "d/e/y": "1", "d/.gitignore": "*.tmp\n", "old.tmp": "1",
		"d/old.tmp": "1",
	}
	for _, c := range []struct {
		name                   string
		add                    map[string]string
		removed, opaque        []string
		changed, deleted, only []string
	}{
		{name: "nothing"},
		{name: "copied up, unchanged", add: map[string]string{"a": "1", "run": "#!x", "d/e/y": "1"}},
		{name: "only the mode", add: map[string]string{"run": "x"}, changed: []string{"run"}},
		{name: "removed", removed: []string{"a", "d/e", "d/absent"}, deleted: []string{"a", "d/e/y"}},
		{
			name: "opaque", add: map[string]string{"d/x": "1", "d/n": "1"}, opaque: []string{"d"}, changed: []string{"d/n"},
			deleted: []string{"d/.gitignore", "d/e/y", "d/old.tmp"},
		},
		{
			name: "a file for a directory", add: map[string]string{"d": "1"}, changed: []string{"d"},
			deleted: []string{"d/.gitignore", "d/e/y", "d/old.tmp", "d/x"},
		},
		{name: "a directory for a file", add: map[string]string{"a/b": "1"}, changed: []string{"a/b"}, deleted: []string{"a"}},
		{name: "an empty directory for a file", opaque: []string{"a"}, deleted: []string{"a"}},
		{
			name: "the tree's rules", add: map[string]string{"d/new.tmp": "1", "d/sub/new.tmp": "1", "new.tmp": "1", "d/old.tmp": "2"},
			changed: []string{"d/old.tmp", "new.tmp"},
		},
		{
			name: "rules removed", add: map[string]string{"d/new.tmp": "1"}, removed: []string{"d/.gitignore"},
			changed: []string{"d/new.tmp"}, deleted: []string{"d/.gitignore"},
		},
		{
			name: "rules hidden", add: map[string]string{"d/new.tmp": "1"}, opaque: []string{"d"}, changed: []string{"d/new.tmp"},
			deleted: []string{"d/.gitignore", "d/e/y", "d/old.tmp", "d/x"},
		},
		{
			name: "some", add: map[string]string{"a": "2", "d/n": "1"}, removed: []string{"d/x", "run"}, only: []string{"d/**"},
			changed: []string{"d/n"}, deleted: []string{"d/x"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			base := put(t, s, lower)
			dir := upper(t, c.add, c.removed, c.opaque)
			out, err := s.Collect(t.Context(), session.Collect{Base: base, Lower: base, Dir: dir, Only: c.only})
			require.NoError(t, err)
			require.Equal(t, append([]string{}, c.changed...), out.Changed)
			require.Equal(t, append([]string{}, c.deleted...), out.Deleted)
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
		_, err = s.Collect(t.Context(), session.Collect{Base: base, Lower: base, Dir: dir})
		require.NoError(t, err)
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
	out, err := s.Collect(t.Context(), session.Collect{Base: base, Lower: base, Dir: dir})
	require.NoError(t, err)
	require.Equal(t, []string{"d/e/new", "f"}, out.Changed)
	require.Equal(t, []string{"d/e/y", "d/x"}, out.Deleted)
}
