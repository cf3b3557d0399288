package bounded_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/platform/bounded"
)

func TestEverythingBelowADirectoryIsVisited(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "other"), nil, 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a/b/c/d"), 0o700))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	for i := range 2000 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a", strconv.Itoa(i)), nil, 0o600))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, root.Close()) }()
	var names []string
	hiding := ""
	hidden, err := bounded.Walk(t.Context(), root, 4, func(e bounded.Entry) {
		names = append(names, e.Info.Name())
		if e.Hidden {
			hiding += e.Info.Name()
		}
		if !e.Info.IsDir() {
			require.NoError(t, e.Dir.Remove(e.Info.Name()))
		}
	})
	require.NoError(t, err)
	require.False(t, hidden)
	require.Len(t, names, 2000+len("abcd")+len([]string{"link"}))
	require.True(t, strings.HasSuffix(strings.Join(names, " "), "d c b a"), "a directory follows its content")
	require.Equal(t, "d", hiding, "it is too deep")
	require.FileExists(t, filepath.Join(outside, "other"))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = bounded.Walk(ctx, root, 4, func(bounded.Entry) { t.Error("visited after the end") })
	require.ErrorIs(t, err, context.Canceled)
}
