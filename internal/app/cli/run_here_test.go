package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// fakeClaude is an agent program that plans, makes and reviews a change, which passes its check at the second attempt. It stands for
// Claude Code.
const fakeClaude = `#!/bin/sh
case "$(cat)" in
*"Plan the change"*) echo '{"summary":"Planned.","decisions":{"plan":"1. shout.txt"}}' > "$MAESTRO_RESULT" ;;
*"make-test failed"*) echo HELLO > shout.txt; echo '{"summary":"It shouts."}' > "$MAESTRO_RESULT" ;;
*"Make the change"*) echo hello > shout.txt; echo '{"summary":"It shouts."}' > "$MAESTRO_RESULT" ;;
*) echo '{"summary":"It is right."}' > "$MAESTRO_RESULT" ;;
esac
echo '{"type":"system","subtype":"init","session_id":"11111111-1111-1111-1111-111111111111","model":"m"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"11111111-1111-1111-1111-111111111111"}'
`

// inUnprepared is a desk in a Git repository that nobody has prepared, on a machine with an agent program and no Temporal.
func inUnprepared(t *testing.T) *desk {
	t.Helper()
	d := newDesk(t).withProgram()
	d.set("TEMPORAL_ADDRESS", "")
	d.set("ANTHROPIC_API_KEY", "k")
	d.set("PATH", filepath.Join(d.dir, "programs")+":"+os.Getenv("PATH"))
	require.NoError(t, os.Chmod(d.file("programs/claude", fakeClaude), 0o755))
	d.cwd = filepath.Dir(d.file("shop/Makefile", "test:\n\tgrep HELLO shout.txt\n"))
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = d.cwd
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return d
}

// TestARequirementIsEnoughInARepository has neither a terminal nor a Maestro: server and worker live as long as the command.
func TestARequirementIsEnoughInARepository(t *testing.T) {
	t.Parallel()
	d := inUnprepared(t)
	c := d.run("run", "Shout hello", "--session", "s")
	require.Zero(t, c.code, c.stderr.String())
	require.Contains(t, c.stderr.String(), "agent       Claude Code, with the key in ANTHROPIC_API_KEY\nchecks      make test\n")
	require.Contains(t, c.stdout.String(), "implementation/developer: attempt 1 failed: test_failure: check make-test failed")
	require.Contains(t, c.stdout.String(), "session s: completed")
	require.Contains(t, c.stderr.String(), "changes     1 file, +1 -0 lines\n            added    shout.txt\n"+
		"reviewer    It is right.\ndeveloper   It shouts.\nplanner     Planned.\nchecks      passed: make-test\n")
	require.Contains(t, c.stderr.String(), "next        `maestro apply s` brings the changes here")
	require.Contains(t, d.must(0, "artifacts", "list", "s"), "shout.txt")
	require.Equal(t, 1, d.run("dev", "status").code, "nothing is left to run")

	files := d.must(0, "init")
	team, agents := filepath.Join(d.cwd, ".maestro/team.yaml"), filepath.Join(d.cwd, ".maestro/agents.yaml")
	require.Equal(t, team+"\n"+agents+"\n", files)
	d.must(0, "validate", team, "--agents", agents)
	require.Contains(t, d.run("init").stderr.String(), "team.yaml exists, and is not overwritten")
	c = d.run("run", d.file("requirement.md", "Shout hello"), "--session", "own")
	require.Zero(t, c.code, c.stderr.String())
	require.NotContains(t, c.stderr.String(), "agent  ", "the repository's own team works")
	require.Contains(t, c.stdout.String(), "session own of team shop: running")
}

// TestARunOnATerminalLeavesMaestroInTheBackground starts two sessions on one server and worker.
func TestARunOnATerminalLeavesMaestroInTheBackground(t *testing.T) {
	t.Parallel()
	d := inUnprepared(t)
	d.terminal = true
	host, err := os.Hostname()
	require.NoError(t, err)
	d.host = host
	t.Cleanup(func() { d.run("dev", "stop") })
	first := d.run("run", "Shout hello", "--plain", "--session", "a")
	require.Zero(t, first.code, first.stderr.String())
	require.Contains(t, first.stderr.String(), "starting Maestro in the background")
	var doc struct {
		Runs bool
		PID  int
		Log  string
	}
	d.json(&doc, "dev", "status")
	require.True(t, doc.Runs)
	require.Contains(t, d.must(0, "dev", "logs"), "Maestro is running")

	second := d.run("run", "Shout hello", "--plain", "--session", "b")
	require.Zero(t, second.code, second.stderr.String())
	require.NotContains(t, second.stderr.String(), "starting")
	var status session.Status
	d.json(&status, "status", "b")
	require.Equal(t, session.Completed, status.Status)

	d.must(0, "dev", "stop")
	require.Equal(t, 1, d.run("dev", "status").code)
	d.must(0, "dev", "stop")
}

func TestARepositoryWithoutAnAgentGetsAText(t *testing.T) {
	t.Parallel()
	d := inUnprepared(t)
	d.set("ANTHROPIC_API_KEY", "")
	d.set("PATH", filepath.Join(d.dir, "programs"))
	c := d.run("run", "Shout hello")
	require.Equal(t, 2, c.code)
	require.Contains(t, c.stderr.String(), "Claude Code is installed: set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN")
	d.cwd = t.TempDir()
	require.Contains(t, d.run("run", "Shout hello").stderr.String(), "is in no Git repository; give a team")
	require.Contains(t, d.run("run").stderr.String(), "missing requirement")
}
