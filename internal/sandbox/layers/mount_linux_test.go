package layers_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
	"github.com/maestro-hive/maestro/internal/sandbox/layers"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/cas/castest"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// A mounted stack is its tree, and what is done over it is collected as from the whole tree,
// whatever was changed, whichever layers are still there.
func TestAttemptsOverLayers(t *testing.T) {
	t.Parallel()
	if !proctest.InMounts(t) {
		return
	}
	top := t.TempDir()
	dir, err := os.OpenRoot(top)
	require.NoError(t, err)
	defer dir.Close()
	s := openStore(t, filepath.Join(top, "store"))
	root := filepath.Join(top, "layers")
	l := openLayers(t, s, root, nil)
	empty := openLayers(t, s, root, func(o *layers.Options) { o.MaxBytes = 1 })
	rapid.Check(t, func(t *rapid.T) {
		tree := put(t, s, castest.Tree(t))
		near := tree
		for range rapid.IntRange(1, 6).Draw(t, "attempts") {
			stack := acquire(t, l, tree, near)
			near = tree
			room := filepath.Join(top, "room")
			for _, d := range []string{room, room + "/dir", room + "/upper", room + "/work"} {
				require.NoError(t, os.Mkdir(d, 0o755))
			}
			tree = attempt(t, s, stack, tree, room)
			require.NoError(t, stack.Release())
			require.NoError(t, bounded.RemoveAll(dir, "room"))
			if rapid.IntRange(0, 5).Draw(t, "collect") == 0 {
				require.NoError(t, empty.Collect(t.Context()))
			}
		}
	})
}

// attempt works over a tree and returns the one that it leaves.
func attempt(t *rapid.T, s *cas.Store, stack *layers.Stack, tree spec.Digest, room string) spec.Digest {
	mounted := func(do func(dir string)) {
		unmount, err := proctest.Overlay(room+"/dir", stack.Dirs, room+"/upper", room+"/work")
		require.NoError(t, err)
		defer func() { require.NoError(t, unmount()) }()
		do(room + "/dir")
	}
	mounted(func(dir string) {
		same, err := s.Collect(t.Context(), session.Collect{Base: tree, Dir: dir})
		require.NoError(t, err)
		require.Equal(t, tree, same.Output, "the mounted stack is its tree")
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		defer root.Close()
		for range rapid.IntRange(0, 6).Draw(t, "operations") {
			castest.Operation(t, root)
		}
	})
	out, err := s.Collect(t.Context(), session.Collect{Base: tree, Lower: tree, Dir: room + "/upper"})
	mounted(func(dir string) {
		whole, wholeErr := s.Collect(t.Context(), session.Collect{Base: tree, Dir: dir})
		if wholeErr != nil {
			require.EqualError(t, err, wholeErr.Error())
			out.Output = tree
			return
		}
		require.NoError(t, err)
		require.Equal(t, whole, out)
	})
	return out.Output
}
