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
	got := d.run("apply", "s", "--dry-run")
	require.Equal(t, lines, got.stdout.String(), got.stderr.String())
	require.Contains(t, got.stderr.String(), "would apply 7 files of s after make to "+ws)
	require.Equal(t, before, tree(t, ws))

	d.file("ws/README.md", "hello, mine\n")
	d.file("ws/tool.sh", "mine\n")
	d.file("ws/other.txt", "mine\n")
	mine := tree(t, ws)
	got = d.run("apply", "s")
	require.Equal(t, 1, got.code)
	require.Empty(t, got.stdout.String())
	for _, want := range []string{
		"nothing was written to " + ws + ": 2 files are not as they were when session s started\n",
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
	until(t, func() bool {
		var s session.Status
		d.json(&s, "status", "s")
		return len(s.Phases) == 3 && s.Phases[1].Status == session.Running && s.Phases[2].Status == session.Pending &&
			fileExists(d.dir+"/sent")
	}, "the work is not sent back")
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

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
