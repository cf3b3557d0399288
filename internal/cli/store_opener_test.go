package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyWhatMakesAStoreSaysWhereItIs(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	dir := t.TempDir()
	a := newApp(Env{Stderr: &said, Environ: []string{"HOME=" + dir, "XDG_STATE_HOME=" + dir}})
	for _, create := range []bool{true, false, false} {
		got, err := a.storeDir(create)
		require.NoError(t, err)
		if got != filepath.Join(dir, "maestro") {
			t.Skip("this machine has a store at the usual place")
		}
	}
	require.Equal(t, 1, strings.Count(said.String(), filepath.Join(dir, "maestro")), said.String())
}
