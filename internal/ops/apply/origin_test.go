package apply

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhereARepositoryWasClonedFrom(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]string{
		"https://ann:secret@git.example/acme/shop.git": "https://git.example/acme/shop.git",
		"ssh://git@git.example/acme/shop":              "ssh://git@git.example/acme/shop",
		"git@git.example:acme/shop.git":                "git@git.example:acme/shop.git",
		"/srv/shop.git":                                "",
		"../shop":                                      "",
	} {
		dir := t.TempDir()
		for _, args := range [][]string{{"init", "--quiet"}, {"remote", "add", "origin", at}} {
			cmd := exec.Command("git", args...)
			cmd.Dir = dir
			require.NoError(t, cmd.Run())
		}
		require.Equal(t, want, Origin(t.Context(), dir, os.Environ()), at)
	}
	require.Empty(t, Origin(t.Context(), t.TempDir(), append(os.Environ(), "GIT_CEILING_DIRECTORIES="+os.TempDir())))
}
