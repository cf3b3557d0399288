package apply

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// runGit runs git in a directory.
func runGit(t *testing.T, dir string, environ []string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, environ
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

func TestGitWorksWhereItIsToldTo(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	environ := append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@localhost", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@localhost")
	git := func(args ...string) string { return runGit(t, dir, environ, args...) }
	git("init", "--quiet")
	require.Empty(t, Head(t.Context(), dir, environ), "there is no commit yet")
	git("commit", "--quiet", "--allow-empty", "-m", "first")
	first := git("rev-parse", "HEAD")
	require.Len(t, Short(first), 10)
	require.Equal(t, first, Head(t.Context(), dir, append(environ, "GIT_DIR="+other, "GIT_WORK_TREE="+other)))
	require.Empty(t, Head(t.Context(), other, append(environ, "GIT_CEILING_DIRECTORIES="+other)))
}

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
		runGit(t, dir, os.Environ(), "init", "--quiet")
		runGit(t, dir, os.Environ(), "remote", "add", "origin", at)
		below := filepath.Join(dir, "below")
		require.NoError(t, os.Mkdir(below, 0o700))
		got := Source(t.Context(), "h", below, os.Environ())
		require.Equal(t, session.Source{Host: "h", Dir: below, Remote: want, Prefix: "below/"}, got, at)
	}
	got := Source(t.Context(), "", t.TempDir(), append(os.Environ(), "GIT_CEILING_DIRECTORIES="+os.TempDir()))
	require.Empty(t, got.Commit+got.Remote+got.Prefix)
}

// TestWithTracked asks git for the files of a directory, and for the rules that no .gitignore has.
func TestWithTracked(t *testing.T) {
	t.Parallel()
	home, repository := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	environ := append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME=", "GIT_CONFIG_NOSYSTEM=1")
	environ = slices.DeleteFunc(environ, func(e string) bool {
		return strings.HasPrefix(e, "GIT_CONFIG") && e != "GIT_CONFIG_NOSYSTEM=1"
	})
	git := func(args ...string) { runGit(t, repository, environ, args...) }
	git("init", "--quiet")
	for _, name := range []string{".gitignore", "main.go", "dist/a\nb", "docs/x.log", "untracked"} {
		write(filepath.Join(repository, name), "*.log\n")
	}
	git("add", "--force", ".gitignore", "main.go", "dist", "docs/x.log")
	write(filepath.Join(repository, ".git/info/exclude"), "local.txt\n")
	write(filepath.Join(home, ".config/git/ignore"), "*.swp\n")

	given := cas.SnapshotOptions{Ignore: []string{"x"}}
	o := WithTracked(t.Context(), repository, environ, given)
	require.ElementsMatch(t, []string{".gitignore", "main.go", "dist/a\nb", "docs/x.log"}, o.Tracked)
	require.Equal(t, "*.swp\n\nlocal.txt\n\n", o.Beneath, "the repository's rules are the later ones")
	require.Equal(t, given.Ignore, o.Ignore)

	o = WithTracked(t.Context(), filepath.Join(repository, "docs"), environ, given)
	require.Equal(t, []string{"x.log"}, o.Tracked, "paths are those below the directory")
	require.Contains(t, o.Beneath, "local.txt\n")

	write(filepath.Join(home, "mine"), "*.orig\n")
	git("config", "core.excludesFile", "~/mine")
	require.Contains(t, WithTracked(t.Context(), repository, environ, given).Beneath, "*.orig\n")
	write(filepath.Join(home, "mine"), string(make([]byte, maxExclude+1)))
	require.Equal(t, "local.txt\n\n", WithTracked(t.Context(), repository, environ, given).Beneath, "a file of rules is bounded")

	part := filepath.Join(repository, "part")
	write(filepath.Join(part, "made.log"), "x")
	runGit(t, part, environ, "init", "--quiet")
	runGit(t, part, environ, "add", ".")
	runGit(t, part, environ, "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "--quiet", "--message", "x")
	git("submodule", "--quiet", "add", "./part", "part")
	require.Contains(t, WithTracked(t.Context(), repository, environ, given).Tracked, "part/made.log",
		"a submodule has an index of its own")
	write(filepath.Join(part, ".git/index"), "broken")
	require.Contains(t, WithTracked(t.Context(), repository, environ, given).Tracked, "docs/x.log")

	ran := filepath.Join(home, "ran")
	write(filepath.Join(home, "monitor"), "#!/bin/sh\ntouch "+ran+"\n")
	require.NoError(t, os.Chmod(filepath.Join(home, "monitor"), 0o700))
	git("config", "core.fsmonitor", filepath.Join(home, "monitor"))
	require.NotEmpty(t, WithTracked(t.Context(), repository, environ, given).Tracked)
	require.NoFileExists(t, ran, "the repository's program does not run")

	require.Equal(t, given, WithTracked(t.Context(), t.TempDir(), append(environ, "GIT_CEILING_DIRECTORIES="+os.TempDir()), given),
		"outside of a repository")
}
