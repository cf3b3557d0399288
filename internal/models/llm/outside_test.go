package llm_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// newOutside makes a file beside the bench's directory with links that lead to
// it, and returns a function that looks whether it is as it was.
func newOutside(t *testing.T, b *bench) func() {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "outside")
	require.NoError(t, os.WriteFile(path, []byte("private"), 0o600))
	require.NoError(t, os.Symlink(path, filepath.Join(b.dir, "link")))
	require.NoError(t, os.Symlink(dir, filepath.Join(b.dir, "dirlink")))
	return func() {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "private", string(data))
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	}
}
