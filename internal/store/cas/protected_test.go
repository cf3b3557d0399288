package cas_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// TestProtectedFilesStayAsTheyWere changes, removes, adds and replaces protected files.
func TestProtectedFilesStayAsTheyWere(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	dir := t.TempDir()
	put := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	empty, err := s.PutManifest(t.Context(), cas.Manifest{})
	require.NoError(t, err)
	for path, text := range map[string]string{
		"tests/a": "a", "tests/b": "b", "tests/deep/c": "c", "main": "1",
		".gitignore": "!target", "target/tests/a": "a",
	} {
		put(path, text)
	}
	before := collected(t, s, session.Collect{Base: empty, Dir: dir})
	put("tests/a", "changed")
	put("tests/new", "new")
	put("target/tests/a", "changed")
	put("main", "2")
	require.NoError(t, os.Remove(filepath.Join(dir, "tests/b")))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "tests/deep")))
	put("tests/deep", "a file in place of a directory")
	after, err := s.Collect(t.Context(), session.Collect{
		Base: before.Output, Dir: dir,
		Protected: []string{"tests/**", "**/tests/a"},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"main"}, after.Changed)
	require.Empty(t, after.Deleted)
	require.Equal(t, []string{"target/tests/a", "tests/a", "tests/b", "tests/deep", "tests/deep/c", "tests/new"}, after.Protected)
}
