package cli_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
)

func TestAResultIsWrittenWhereItBegan(t *testing.T) {
	t.Parallel()
	d := crafted(t)
	ws := filepath.Join(d.dir, "ws")
	before := tree(t, ws)
	lines := "changed  README.md\nadded    data.bin\nadded    docs/design.md\nadded    latest\nremoved  old.txt\nchanged  " +
		"script\nadded    tool.sh\n"
	got := d.ends(0, "would apply 7 files of s after make to "+ws, "apply", "s", "--dry-run")
	require.Equal(t, lines, got.stdout.String())
	require.Equal(t, before, tree(t, ws))

	d.file("ws/README.md", "hello, mine\n")
	d.file("ws/tool.sh", "mine\n")
	d.file("ws/other.txt", "mine\n")
	mine := tree(t, ws)
	got = d.ends(1, "nothing was written to "+ws+": 2 files are not as they were when session s started\n", "apply", "s")
	require.Empty(t, got.stdout.String())
	for _, want := range []string{
		"  README.md: was changed in the directory and by the session\n  tool.sh: already exists in the directory with other content\n",
		"maestro apply s --force", "maestro apply s --patch",
	} {
		require.Contains(t, got.stderr.String(), want)
	}
	require.NotContains(t, got.stderr.String(), "--branch", "the directory is not in a git repository")
	require.Equal(t, mine, tree(t, ws))
	d.printsAt(1, `{"conflicts": [{"path": "README.md"}, {"path": "tool.sh"}]}`, "apply", "s")

	require.Equal(t, "added    docs/design.md\n", d.must(0, "apply", "s", "docs"), "a part that is in no conflict")
	d.prints(`{"status": "completed", "whole": true, "dir": "`+ws+`"}`, "apply", "s", "--force")
	want := maps.Clone(result)
	want["other.txt"] = "mine\n"
	require.Equal(t, want, tree(t, ws))
	d.ends(0, "applied 0 files of s after make to "+ws+"; 7 files were already up to date", "apply", "s")

	t.Run("elsewhere", func(t *testing.T) { testApplyElsewhere(t, d) })
	t.Run("misuse", func(t *testing.T) {
		for want, args := range map[string][]string{
			"is not a readable directory":                {"s", "--dir", d.dir + "/nowhere"},
			`"nowhere" is not found`:                     {"s", "nowhere"},
			"--branch is empty":                          {"s", "--branch", ""},
			"--branch and --patch exclude each other":    {"s", "--patch", "--branch", "x"},
			"--branch needs a git repository, but " + ws: {"s", "--branch", "x"},
			`session "nobody" not found`:                 {"nobody"},
			"missing SESSION; usage: maestro apply ":     {},
		} {
			d.ends(2, want, append([]string{"apply"}, args...)...)
		}
	})
}

// testApplyElsewhere brings the result to other directories, and as a patch.
func testApplyElsewhere(t *testing.T, d *desk) {
	clean := filepath.Join(d.dir, "clean")
	for _, name := range []string{"README.md", "old.txt", "script"} {
		content := map[string]string{"README.md": "hello\n", "old.txt": "old\n", "script": "#!/bin/sh\n"}[name]
		d.file("clean/"+name, content)
		d.file("patched/"+name, content)
	}
	want := maps.Clone(result)
	delete(want, ".env")
	d.must(0, "apply", "s", "--dir", clean)
	require.Equal(t, want, tree(t, clean))
	runGit(t, filepath.Join(d.dir, "patched"), d.must(0, "apply", "s", "--patch"), "apply", "-")
	require.Equal(t, want, tree(t, filepath.Join(d.dir, "patched")))
	onScreen := *d
	onScreen.terminal = true
	require.Contains(t, onScreen.must(0, "apply", "s", "--patch", "tool.sh"), "\x1b[32m+echo \\x1b]0;done\x1b[0m\n",
		"only colours reach a terminal")
	require.Contains(t, d.must(0, "apply", "s", "--patch", "data.bin"), "GIT binary patch\n")

	away := *d // the store came from another machine
	away.host = "another"
	away.ends(2, "on host desk, not on this machine; give a directory with --dir", "apply", "s")
}

// reviewedTeam has work that is sent back once.
const reviewedTeam = `
version: 1
name: reviewed
personas:
  dev: {role: Developer, agent: coder, instructions: "Write code."}
  critic: {role: Reviewer, agent: critic, instructions: "Review it."}
phases:
  - {name: build, personas: [dev], produces: [code.txt]}
  - {name: review, personas: [critic], sends_back: {to: build, times: 1}}
`

func TestAResultThatWasSentBackIsNotAppliedAsIfItWereWhole(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{
		"writer": "echo plan > plan.txt",
		"coder":  `[ -f ` + d.dir + `/sent ] && exec sleep 600; echo code > code.txt`,
		"critic": `touch ` + d.dir + `/sent; echo '{"sends_back":{"reasons":["too short"]}}' > "$MAESTRO_RESULT"`,
	})
	d.must(0, "run", d.file("team.yaml", strings.NewReplacer(
		"phases:", "  analyst: {role: Analyst, agent: writer, instructions: \"Plan.\"}\nphases:\n  - {name: plan, personas: [analyst]}",
	).Replace(reviewedTeam)), "Make it so.", "--session", "s")
	d.becomes("s", func(s session.Status) bool {
		_, err := os.Stat(d.dir + "/sent")
		return err == nil && s.Phases[1].Status == session.Running && s.Phases[2].Status == session.Pending
	})
	d.must(0, "cancel", "s", "--watch")
	here := filepath.Join(d.dir, "here")
	require.NoError(t, os.Mkdir(here, 0o700))
	d.cwd = here
	why := "session s is cancelled and its result is incomplete: 1 of 3 phases (plan) is in its newest checkpoint; build and " +
		"review were sent back and not redone"
	for _, flags := range [][]string{{}, {"--patch"}, {"--branch", "x"}} {
		got := d.ends(1, why+"; run `maestro resume s` or `maestro apply s --partial`", append([]string{"apply", "s"}, flags...)...)
		require.Empty(t, got.stdout.String())
	}
	require.Empty(t, tree(t, here))
	d.printsAt(1, `{"whole": false, "missing": ["build", "review"], "reason": "`+why+`"}`, "apply", "s")
	got := d.ends(0, why, "apply", "s", "--partial")
	require.Contains(t, got.stderr.String(), "applied 1 file of s (partial: 1 of 3 phases (plan)) to "+here)
	require.Equal(t, map[string]string{"plan.txt": "plan\n"}, tree(t, here))
}

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

	d.ends(1, "maestro apply s --branch NAME   creates a commit for `git merge`, based on the "+
		"session's start\n", "apply", "s")
	require.Equal(t, before, tree(t, repo))

	d.ends(0, "would commit 7 files on "+first[:10], "apply", "s", "--branch", "team/s", "--dry-run")
	require.NotContains(t, runGit(t, repo, "", "branch", "--list"), "team/s")

	got := d.ends(0, "user.name and user.email are not set in git, so the commit's author is Maestro", "apply", "s",
		"--branch", "team/s")
	require.Contains(t, got.stdout.String(), "changed  app/README.md\n")
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
	got := d.ends(0, "", "apply", "s", "docs", "--branch", "part")
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
