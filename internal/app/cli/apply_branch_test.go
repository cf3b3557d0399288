package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// inRepository is a desk with a finished session "s" on the workspace ws, which is
// the directory repo/app of a repository with a commit.
func inRepository(t *testing.T) (d *desk, repo string) {
	t.Helper()
	d = newDesk(t).withServer()
	d.set("GIT_CONFIG_GLOBAL", d.file("gitconfig", "[user]\n\tuseConfigOnly = true\n"))
	d.withWorker(map[string]string{"writer": craftWriter, "coder": craftMaker})
	repo = filepath.Join(d.dir, "repo")
	d.file("repo/top.txt", "top\n")
	d.file("repo/.gitignore", ".env\n")
	d.workspace()
	require.NoError(t, os.Rename(filepath.Join(d.dir, "ws"), filepath.Join(repo, "app")))
	require.NoError(t, os.Symlink(filepath.Join(repo, "app"), filepath.Join(d.dir, "ws")))
	runGit(t, repo, "", "init", "--quiet", "--initial-branch=main")
	runGit(t, repo, "", "add", ".")
	runGit(t, repo, "", "commit", "--quiet", "-m", "first")
	d.craft("s")
	return d, repo
}

func TestAResultBecomesACommit(t *testing.T) {
	t.Parallel()
	d, repo := inRepository(t)
	first := strings.TrimSpace(runGit(t, repo, "", "rev-parse", "HEAD"))
	d.file("repo/app/README.md", "mine, and not committed\n")
	d.file("repo/top.txt", "staged\n")
	runGit(t, repo, "", "add", "top.txt")
	status, before := runGit(t, repo, "", "status", "--porcelain"), tree(t, repo)

	got := d.run("apply", "s")
	require.Equal(t, 1, got.code)
	require.Contains(t, got.stderr.String(), "maestro apply s --branch NAME   creates a commit for `git merge`, based on the "+
		"session's start\n")
	require.Equal(t, before, tree(t, repo))

	d.ends(0, "would commit 7 files on "+first[:10], "apply", "s", "--branch", "team/s", "--dry-run")
	require.NotContains(t, runGit(t, repo, "", "branch", "--list"), "team/s")

	got = d.run("apply", "s", "--branch", "team/s")
	require.Equal(t, 0, got.code, got.stderr.String())
	require.Contains(t, got.stdout.String(), "changed  app/README.md\n")
	require.Contains(t, got.stderr.String(), "user.name and user.email are not set in git, so the commit's author is Maestro")
	require.Contains(t, got.stderr.String(), "with 7 files, on "+first[:10]+"; merge it with `git merge team/s`")
	require.Equal(t, status, runGit(t, repo, "", "status", "--porcelain"), "index and working tree are not touched")
	require.Equal(t, before, tree(t, repo))

	require.Equal(t, first, strings.TrimSpace(runGit(t, repo, "", "rev-parse", "team/s^")))
	message := runGit(t, repo, "", "log", "-1", "--format=%an <%ae>%n%B", "team/s")
	for _, want := range []string{
		"Maestro <maestro@localhost>\nMake it so.\n",
		"The work of session s of team craft, after phase make.", "Maestro-Session: s\n",
	} {
		require.Contains(t, message, want)
	}
	runGit(t, repo, "", "worktree", "add", "--quiet", filepath.Join(d.dir, "out"), "team/s")
	want := map[string]string{"top.txt": "top\n", ".gitignore": ".env\n"}
	for name, content := range result {
		if name != ".env" {
			want["app/"+name] = content
		}
	}
	require.Equal(t, want, tree(t, filepath.Join(d.dir, "out")))

	d.file("repo/app/README.md", "hello\n")
	patch := d.must(0, "apply", "s", "--patch")
	for _, dir := range []string{".", "app"} {
		runGit(t, repo, patch, "-C", dir, "apply", "-")
		require.Equal(t, "hello\nmore\n", tree(t, repo)["app/README.md"])
		runGit(t, repo, patch, "apply", "--reverse", "-")
	}

	t.Run("names", func(t *testing.T) { testBranchNames(t, d, repo) })
	t.Run("moved on", func(t *testing.T) { testMovedOn(t, d, repo, first) })
}

// A filter of the user's may take its time, and outlives git when that is ended.
func TestMakingABranchIsLeftWhileAFilterWorks(t *testing.T) {
	t.Parallel()
	d, _ := inRepository(t)
	begun, enough := filepath.Join(d.dir, "begun"), filepath.Join(d.dir, "enough")
	t.Cleanup(func() { d.file("enough", "") })
	d.file("gitconfig", "[core]\n\tattributesFile = "+d.file("attributes", "*.md filter=slow\n")+
		"\n[filter \"slow\"]\n\tclean = \"touch "+begun+"; while [ -e "+begun+" ] && [ ! -e "+enough+" ]; do sleep 0.05; done\"\n")
	c := d.begin("apply", "s", "--branch", "team/s")
	until(t, func() bool { _, err := os.Stat(begun); return err == nil }, "the filter does not begin")
	c.interrupt()
	require.Equal(t, 130, c.wait(), c.stderr.String())
}

func testBranchNames(t *testing.T, d *desk, repo string) {
	for name, want := range map[string]string{
		"main": "branch main is checked out", "team/s": "branch team/s is checked out",
		"a..b": "--branch: a..b is not a valid branch name", "-x": "is not a valid branch name",
	} {
		d.ends(2, want, "apply", "s", "--force", "--branch="+name)
	}
	runGit(t, repo, "", "branch", "taken")
	d.ends(2, "branch taken already exists; choose another, or replace it with --force", "apply", "s", "--branch", "taken")
	d.must(0, "apply", "s", "--branch", "taken", "--force")
	require.Equal(t, runGit(t, repo, "", "rev-parse", "team/s^{tree}"), runGit(t, repo, "", "rev-parse", "taken^{tree}"))
	runGit(t, repo, "", "config", "user.name", "Ann")
	runGit(t, repo, "", "config", "user.email", "ann@example.com")
	got := d.run("apply", "s", "docs", "--branch", "part")
	require.Equal(t, 0, got.code, got.stderr.String())
	require.NotContains(t, got.stderr.String(), "Maestro")
	require.Equal(t, "Ann\n\napp/docs/design.md\n", runGit(t, repo, "", "show", "--format=%an", "--name-only", "part"))
}

// testMovedOn applies to a repository whose checked out commit is another by now.
func testMovedOn(t *testing.T, d *desk, repo, first string) {
	runGit(t, repo, "", "commit", "--quiet", "-a", "-m", "second")
	d.ends(0, "HEAD has changed since the session was started, from "+first[:10], "apply", "s", "--branch", "late")
	require.Equal(t, first, strings.TrimSpace(runGit(t, repo, "", "rev-parse", "late^")))

	// Another repository does not know the commit.
	other := filepath.Join(d.dir, "other")
	d.file("other/README.md", "something else\n")
	d.file("other/script", "#!/bin/sh\n")
	runGit(t, other, "", "init", "--quiet", "--initial-branch=main")
	runGit(t, other, "", "add", ".")
	runGit(t, other, "", "commit", "--quiet", "-m", "other")
	// what is gone there and in the result alike is no conflict
	d.printsAt(1, `{"conflicts": [{"path": "README.md"}]}`, "apply", "s", "--branch", "b", "--dir", other)
	got := d.run("apply", "s", "--branch", "b", "--dir", other)
	require.Contains(t, got.stderr.String(), ": 1 file is not as it was when session s started")
	require.Contains(t, got.stderr.String(), "README.md: differs in ")
	d.must(0, "apply", "s", "--branch", "b", "--dir", other, "--force")
	require.Equal(t, "hello\nmore\n", runGit(t, other, "", "show", "b:README.md"))

	require.Contains(t, d.run("apply", "s", "--branch", "b2", "--dir", other, "README.md").stderr.String(),
		"no commit was created on ")
	runGit(t, other, "", "update-index", "--add", "--cacheinfo", "160000,"+first+",docs")
	runGit(t, other, "", "commit", "--quiet", "-m", "with a submodule")
	got = d.ends(1, "docs: is a submodule", "apply", "s", "--branch", "b3", "--dir", other, "--force")
	require.NotContains(t, got.stderr.String(), "--force")

	empty := filepath.Join(d.dir, "unborn")
	require.NoError(t, os.Mkdir(empty, 0o700))
	runGit(t, empty, "", "init", "--quiet", "--initial-branch=main")
	d.ends(0, "without a parent", "apply", "s", "--branch", "b", "--dir", empty, "--force")
	require.Equal(t, "b\n", runGit(t, empty, "", "for-each-ref", "--format=%(refname:short)"))
}
