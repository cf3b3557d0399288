package apply

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConflictsAreInTheWay(t *testing.T) {
	t.Parallel()
	differs, blocked := Conflict{Path: "a", Reason: "differs"}, Conflict{Path: "b", Reason: "is a directory", Blocked: true}
	for name, c := range map[string]struct {
		conflicts []Conflict
		force     bool
		want      bool
	}{
		"none":                       {nil, false, false},
		"one":                        {[]Conflict{differs}, false, true},
		"one, forced":                {[]Conflict{differs}, true, false},
		"one that stays, forced":     {[]Conflict{differs, blocked}, true, true},
		"one that stays, not forced": {[]Conflict{blocked}, false, true},
	} {
		out := Outcome{Conflicts: c.conflicts}
		require.Equal(t, c.want, out.refuse(c.force), name)
		require.Equal(t, c.want, out.Refused, name)
	}
}

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
