package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoMountShowsTheStore has agents look for the store below mounts: by a path with a link, and by moving a directory above it.
func TestNoMountShowsTheStore(t *testing.T) {
	t.Parallel()
	inRooms(t)
	b := newBench(t)
	host := t.TempDir()
	store, link, linked := filepath.Join(host, "given", "data", "store"), filepath.Join(host, "link"), filepath.Join(host, "linked")
	fill(t, store, "blob")
	require.NoError(t, os.Symlink("given", link))
	require.NoError(t, os.Symlink(filepath.Join("given", "data", "store"), linked))
	given := filepath.Join(host, "given")
	s := b.set(Config{
		Isolation: IsolationRequired, Mounts: []Mount{{Path: given, Writable: true}, {Path: link, Writable: true}},
		Agents: map[string]Definition{"x": {Kind: KindCommand, Argv: []string{"/bin/sh", "-c", `cd "$0"
for given in given link; do
	mv $given/data $given/moved; (unshare -Urm mv $given/data $given/moved)
	cat $given/data/store/blob $given/moved/store/blob
	echo x > $given/data/new && mv $given/data/new $given/data/$given
done 2>&1; true`, host}}},
	}, linked)
	if s.launcher.User != nil {
		require.NoError(t, s.launcher.User.Chown(given))
	}
	out, err := b.run(s)
	require.NoError(t, err, string(out.Log))
	require.NotContains(t, string(out.Log), "content of blob")
	require.FileExists(t, filepath.Join(store, "blob"), "nobody has moved it")
	for _, name := range []string{"given", "link"} {
		require.FileExists(t, filepath.Join(given, "data", name), string(out.Log))
	}
}
