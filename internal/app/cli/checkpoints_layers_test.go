package cli_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/sandbox/layers"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// TestVerifyNamesAChangedLayer that agents would work on.
func TestVerifyNamesAChangedLayer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	s, err := store.Create(d.state, store.Options{Clock: time.Now})
	require.NoError(t, err)
	blob, err := s.Content.PutBlob(t.Context(), []byte("right"))
	require.NoError(t, err)
	tree, err := s.Content.PutManifest(t.Context(), cas.Manifest{"a.txt": {SHA256: blob, Size: 5}})
	require.NoError(t, err)
	l, err := layers.New(layers.Options{Root: filepath.Join(d.state, "layers"), Files: s.Content, Now: time.Now})
	require.NoError(t, err)
	stack, err := l.Acquire(t.Context(), tree)
	require.NoError(t, err)
	require.NoError(t, stack.Release())
	require.Contains(t, d.must(0, "checkpoints", "verify", "--all"), "all intact")

	require.NoError(t, os.WriteFile(filepath.Join(stack.Dirs[0], "a.txt"), []byte("wrong"), 0o600))
	said := d.must(1, "checkpoints", "verify", "--all")
	require.Contains(t, said, "layers/"+filepath.Base(filepath.Dir(stack.Dirs[0])))
	require.Contains(t, said, "it is made again from the store")
	require.Contains(t, d.must(0, "checkpoints", "verify", "--all"), "all intact")
}
