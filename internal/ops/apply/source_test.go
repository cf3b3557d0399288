package apply

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
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
		below := filepath.Join(dir, "below")
		require.NoError(t, os.Mkdir(below, 0o700))
		got := Source(t.Context(), "h", below, os.Environ())
		require.Equal(t, session.Source{Host: "h", Dir: below, Remote: want, Prefix: "below/"}, got, at)
	}
	got := Source(t.Context(), "", t.TempDir(), append(os.Environ(), "GIT_CEILING_DIRECTORIES="+os.TempDir()))
	require.Empty(t, got.Commit+got.Remote+got.Prefix)
}
