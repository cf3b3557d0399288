package apply

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGitWorksWhereItIsToldTo(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	environ := append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@localhost", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@localhost")
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = dir, environ
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return strings.TrimSpace(string(out))
	}
	git("init", "--quiet")
	require.Empty(t, Head(t.Context(), dir, environ), "there is no commit yet")
	git("commit", "--quiet", "--allow-empty", "-m", "first")
	first := git("rev-parse", "HEAD")
	require.Len(t, Short(first), 10)
	require.Equal(t, first, Head(t.Context(), dir, append(environ, "GIT_DIR="+other, "GIT_WORK_TREE="+other)))
	require.Empty(t, Head(t.Context(), other, append(environ, "GIT_CEILING_DIRECTORIES="+other)))
}
