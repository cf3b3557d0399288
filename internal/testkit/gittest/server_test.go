package gittest_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/testkit/gittest"
)

// client is a working tree of a repository.
type client struct {
	dir string
	t   *testing.T
}

func (c client) git(args ...string) (string, error) {
	c.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@localhost", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@localhost")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func withCredentials(url string) string {
	return strings.Replace(url, "://", "://"+gittest.User+":"+gittest.Password+"@", 1)
}

func TestARepositoryIsClonedAndPushedTo(t *testing.T) {
	t.Parallel()
	s := gittest.New(t)
	files := map[string]string{"a.txt": "a\n", "run": gittest.Executable("#!/bin/sh\n"), "l": gittest.Link("a.txt")}
	first := s.Create("acme/shop", files)
	require.Equal(t, files, s.Files("acme/shop", first))
	second := s.Commit("acme/shop", "main", map[string]string{"a.txt": gittest.Removed, "b/c": "c"}, "Second")
	require.Equal(t, second, s.Branch("acme/shop", "main"))
	require.Equal(t, map[string]string{"b/c": "c", "run": files["run"], "l": files["l"]}, s.Files("acme/shop", "main"))

	c := client{t.TempDir(), t}
	out, err := c.git("clone", "--quiet", s.Remote("acme/shop"), ".")
	require.Error(t, err)
	require.Contains(t, out, "terminal prompts disabled", "the server asks for a password")
	out, err = c.git("clone", "--quiet", withCredentials(s.Remote("acme/shop")), ".")
	require.NoError(t, err, out)
	large := strings.Repeat("0123456789abcdef", 200_000)
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "large"), []byte(large), 0o600))
	for _, args := range [][]string{
		{"add", "."},
		{"commit", "-qm", "Large"},
		{"-c", "http.postBuffer=1000", "-c", "core.compression=0", "push", "origin", "HEAD:new"},
	} {
		out, err = c.git(args...)
		require.NoError(t, err, out)
	}
	require.Equal(t, large, s.Files("acme/shop", "new")["large"], "a pack in chunks arrives")

	s.Decline("acme/shop", "new", "GH006: no")
	_, err = c.git("commit", "-q", "--allow-empty", "-m", "x")
	require.NoError(t, err)
	out, err = c.git("push", "origin", "HEAD:new")
	require.Error(t, err)
	require.Contains(t, out, "GH006: no")
	out, err = c.git("push", "origin", "HEAD:other")
	require.NoError(t, err, out)

	s.DeleteBranch("acme/shop", "new")
	require.Empty(t, s.Branch("acme/shop", "new"))
	s.Accept("x", "y")
	_, err = c.git("fetch")
	require.Error(t, err)
}

func TestARequestGoesWrong(t *testing.T) {
	t.Parallel()
	s := gittest.New(t)
	s.Create("r", map[string]string{"a": "a"})
	c := client{t.TempDir(), t}
	out, err := c.git("clone", "--quiet", withCredentials(s.Remote("r")), ".")
	require.NoError(t, err, out)
	for name, f := range map[string]gittest.Fault{
		"lost": {Lost: true}, "cut": {Cut: true}, "502": {Status: http.StatusBadGateway}, "403": {Status: http.StatusForbidden},
	} {
		s.FailOnce(http.MethodPost, "/git-receive-pack", f)
		_, err = c.git("push", "origin", "HEAD:"+name)
		require.Error(t, err, name)
		if f.Lost {
			require.NotEmpty(t, s.Branch("r", name), "the server has done it")
		} else {
			require.Empty(t, s.Branch("r", name))
		}
		out, err = c.git("push", "origin", "HEAD:"+name)
		require.NoError(t, err, out)
	}
}
