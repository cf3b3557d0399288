package statedir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func environment(pairs map[string]string) func(string) string {
	return func(name string) string { return pairs[name] }
}

func TestStateDirThatIsNamedIsTaken(t *testing.T) {
	t.Parallel()
	usual := t.TempDir()
	env := environment(map[string]string{Env: "/by/env"})
	dir, note, err := find(usual, "/by/flag", env, false)
	require.NoError(t, err)
	require.Equal(t, "/by/flag", dir)
	require.Empty(t, note)
	dir, _, err = find(usual, "", env, true)
	require.NoError(t, err)
	require.Equal(t, "/by/env", dir)
	dir, _, err = find(usual, "here", env, true)
	require.NoError(t, err)
	require.True(t, filepath.IsAbs(dir))
}

func TestOwnStateDirIsCreatedOnceAndThenFound(t *testing.T) {
	t.Parallel()
	usual, home := filepath.Join(t.TempDir(), "absent"), t.TempDir()
	env := environment(map[string]string{"HOME": home, "XDG_STATE_HOME": "relative/does/not/count"})
	own := filepath.Join(home, ".local", "state", "maestro")

	dir, note, err := find(usual, "", env, false)
	require.NoError(t, err)
	require.Equal(t, usual, dir, "only dev and demo create another")
	require.Empty(t, note)

	dir, note, err = find(usual, "", env, true)
	require.NoError(t, err)
	require.Equal(t, own, dir)
	require.Equal(t, "created "+own+" for the state, because "+usual+" does not exist", note)
	info, err := os.Stat(own)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	dir, note, err = find(usual, "", env, false)
	require.NoError(t, err)
	require.Equal(t, own, dir, "once it is there, every command uses it")
	require.Contains(t, note, "the state is in "+own)
}

func TestStateDirThatCannotBe(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, _, err := find(file, "", environment(nil), true)
	require.ErrorContains(t, err, "is not a directory, and HOME is not set; name a state directory with --state-dir or "+
		"MAESTRO_STATE_DIR")
	_, _, err = find(file, "", environment(map[string]string{"XDG_STATE_HOME": file}), true)
	require.ErrorContains(t, err, "cannot be created")
	dir, _, err := find(file, "", environment(nil), false)
	require.NoError(t, err)
	require.Equal(t, file, dir, "the store says what is wrong with it")
}
