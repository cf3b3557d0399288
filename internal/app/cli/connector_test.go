package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOnlyWhatMakesAStoreSaysWhereItIs(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	dir := t.TempDir()
	a := newApp(Env{Stderr: &said, Environ: []string{"HOME=" + dir, "XDG_STATE_HOME=" + dir}})
	for _, find := range []func() (string, error){a.workerDir, a.storeDir, a.storeDir} {
		got, err := find()
		require.NoError(t, err)
		if got != filepath.Join(dir, "maestro") {
			t.Skip("this machine has a store at the usual place")
		}
	}
	require.Equal(t, 1, strings.Count(said.String(), filepath.Join(dir, "maestro")), said.String())
}

func TestRootRunsNoWorkerOnTheStoreOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory to another user")
	}
	a, dir := newApp(Env{Now: time.Now}), t.TempDir()
	a.stateDir = dir
	_, err := a.createStore(a.workerDir)
	require.NoError(t, err)
	require.NoError(t, os.Chown(dir, 65533, 65533))
	_, err = a.createStore(a.workerDir)
	require.ErrorContains(t, err, dir+" belongs to user 65533")
	require.ErrorContains(t, err, "sudo -u '#65533' maestro")
	require.Equal(t, exitUsage, exitCode(err))
}
