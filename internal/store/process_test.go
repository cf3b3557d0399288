package store_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas/castest"
)

// roles are what other processes do with the store in their first argument.
var roles = map[string]func(dir string, args []string) error{
	"create": func(dir string, _ []string) error {
		s, err := store.Create(dir, options())
		if err == nil {
			fmt.Println(s.ID())
		}
		return err
	},
}

func TestMain(m *testing.M) { castest.Main(m, roles) }

func TestProcessesThatCreateTogetherMakeOneStore(t *testing.T) {
	t.Parallel()
	for range 5 {
		dir := filepath.Join(t.TempDir(), "state", "store")
		var cmds [8]*exec.Cmd
		var ids [8]bytes.Buffer
		for i := range cmds {
			cmds[i] = castest.Process(t, "create", dir)
			cmds[i].Stdout, cmds[i].Stderr = &ids[i], &ids[i]
			require.NoError(t, cmds[i].Start())
		}
		for i, cmd := range cmds {
			require.NoError(t, cmd.Wait(), ids[i].String())
		}
		s, err := store.Open(dir, options())
		require.NoError(t, err)
		for i := range ids {
			require.Equal(t, s.ID()+"\n", ids[i].String())
		}
	}
}
