package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/testkit/jsontest"
)

// writer writes a document; coder fails its first attempt and heeds the feedback.
const (
	writerScript = `mkdir -p docs; echo "# Design" > docs/design.md; echo "wrote the design" >&2
echo '{"summary": "a design", "decisions": {"storage": "memory"}, "usage": {"input_tokens": 100, "output_tokens": 20}}' > "$MAESTRO_RESULT"`
	coderScript = `brief=$(cat); echo "thinking hard" >&2
case "$brief" in *'"feedback":null'*) echo "not yet" >&2; exit 3;; esac
echo "package code" > code.txt; cat docs/design.md >> code.txt
echo '{"summary": "the code", "usage": {"input_tokens": 1000, "output_tokens": 200}}' > "$MAESTRO_RESULT"`
)

func TestASessionFromItsStartToItsFiles(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"writer": writerScript, "coder": coderScript})
	teamFile := d.file("team.yaml", twoTeam)
	workspace := filepath.Join(d.dir, "ws")
	d.file("ws/README.md", "hello\n")
	d.file("ws/.env", "KEY=secret\n")

	got := d.ends(0, "not taken, because they look like secrets: .env", "run", teamFile, "Make it so.", "--session", "s-1",
		"--workspace", workspace, "--watch")
	lines := strings.Split(got.stdout.String(), "\n")
	require.Equal(t, "s-1", lines[0])
	for _, want := range []string{
		"think: started", "think/analyst: completed: a design", "build/dev: attempt 1 failed: unknown",
		"build/dev: completed: the code", "session s-1: completed",
	} {
		require.Contains(t, got.stdout.String(), want)
	}

	d.prints(`{"status": "completed", "team": "pair", "left_out": ["because they look like secrets: .env"],
		"usage": {"input_tokens": 1100, "output_tokens": 220}, "decisions": {"storage": "memory"}, "phases": [{}, {"assignments": [
		{"attempts": 2, "failures": [{"category": "unknown"}]}]}]}`, "status", "s-1")
	table := d.must(0, "status", "s-1")
	require.Contains(t, table, "not taken of the workspace, because they look like secrets: .env")
	require.Contains(t, table, "failed attempts of build/dev:\n  1. unknown:")

	t.Run("listed", func(t *testing.T) { testListed(t, d) })
	t.Run("artifacts", func(t *testing.T) { testArtifacts(t, d) })
	t.Run("logs", func(t *testing.T) { testLogs(t, d) })
	t.Run("taken", func(t *testing.T) {
		d.ends(2, `session "s-1" already exists in the store; `, "run", teamFile, "Again.", "--session", "s-1")
	})
	t.Run("watched again", func(t *testing.T) {
		require.Contains(t, d.must(0, "watch", "s-1"), "session s-1 of team pair: completed")
	})
	t.Run("no more to cancel", func(t *testing.T) {
		d.ends(2, "has already ended: it is completed", "cancel", "s-1")
	})
	t.Run("forgotten by Temporal", func(t *testing.T) {
		other := *d
		other.t = t
		other.withAnotherServer(d.namespace)
		got := other.run("status", "s-1")
		require.Equal(t, 0, got.code)
		require.Contains(t, got.stdout.String(), "Temporal no longer has this session")
		require.Contains(t, other.must(0, "list"), "completed (store only)")
		other.ends(2, `session "s-1" already exists in the store; `, "run", teamFile, "Again.", "--session", "s-1")
	})
	t.Run("completion", func(t *testing.T) {
		require.Contains(t, d.must(0, "__complete", "status", ""), "s-1\tcompleted, team pair")
		require.Contains(t, d.must(0, "__complete", "logs", "s-1", ""), "build/dev")
	})
	t.Run("checkpoints", func(t *testing.T) { testCheckpoints(t, d) }) // damages the store: the last
}

func testListed(t *testing.T, d *desk) {
	until(t, func() bool { // visibility lags a moment behind
		return jsontest.Has(t, d.must(0, "list", "-o", "json"), `{"sessions": [{"temporal": true, "status": "completed"}]}`)
	}, "the session is not listed")
	d.prints(`{"sessions": [{"team": "pair", "requirement": "Make it so.", "tokens": 1320}]}`, "list")
	require.Contains(t, d.must(0, "list"), "Make it so.")
	require.Equal(t, 2, d.run("list", "--status", "done").code)
	require.Equal(t, 2, d.run("list", "--cursor", "x").code)
	away := *d
	away.environ = append(slices.Clone(d.environ), "TEMPORAL_ADDRESS=127.0.0.1:1")
	got := away.ends(0, "cannot reach Temporal", "list", "-o", "json")
	away.ends(4, `session "nosuch" not found in the store`, "watch", "nosuch")
	require.Contains(t, got.stdout.String(), `"Make it so."`, "the store has the requirement, too")
}

func testArtifacts(t *testing.T, d *desk) {
	d.prints(`{"phase": "build", "artifacts": [{"path": "code.txt"}, {"path": "docs/design.md"}]}`, "artifacts", "list", "s-1")
	require.Contains(t, d.must(0, "artifacts", "list", "s-1"), "docs/design.md")

	out := filepath.Join(t.TempDir(), "out")
	require.Equal(t, "README.md\ncode.txt\ndocs/design.md\n", d.must(0, "artifacts", "get", "s-1", "--out", out))
	require.Equal(t, "package code\n# Design\n", tree(t, out)["code.txt"])
	require.NoFileExists(t, filepath.Join(out, ".env"))
	d.ends(1, "already exist", "artifacts", "get", "s-1", "--out", out)
	d.must(0, "artifacts", "get", "s-1", "--out", out, "--overwrite")

	some := filepath.Join(t.TempDir(), "some")
	d.prints(`{"files": ["docs/design.md"]}`, "artifacts", "get", "s-1", "docs", "--out", some)
	require.NoFileExists(t, filepath.Join(some, "code.txt"))
	d.ends(2, "nowhere.txt", "artifacts", "get", "s-1", "nowhere.txt", "--out", some)
}

func testLogs(t *testing.T, d *desk) {
	all := d.must(0, "logs", "s-1")
	require.Less(t, strings.Index(all, "== think/analyst, round 1, attempt 1: completed"),
		strings.Index(all, "== build/dev, round 1, attempt 1: failed"))
	require.Contains(t, all, "wrote the design")
	require.Contains(t, all, "not yet")
	one := d.must(0, "logs", "s-1", "build/dev")
	require.NotContains(t, one, "think/analyst")
	require.Contains(t, one, "== build/dev, round 1, attempt 2: completed")
	require.Regexp(t, `(?m)^coder, \d+m?s, 1,200 tokens$`, one)
	d.prints(`{"logs": [{"status": "failed", "attempt": 1, "category": "unknown"}, {"status": "completed", "attempt": 2}]}`, "logs",
		"s-1", "build")
	d.ends(2, "it has think/analyst, build/dev", "logs", "s-1", "build/nobody")
}

func testCheckpoints(t *testing.T, d *desk) {
	var list struct {
		Checkpoints []struct{ Checkpoint, Phase, Previous, File string }
	}
	d.json(&list, "checkpoints", "list", "s-1")
	require.Len(t, list.Checkpoints, 3)
	require.Equal(t, "build", list.Checkpoints[0].Phase)
	require.Equal(t, list.Checkpoints[1].Checkpoint, list.Checkpoints[0].Previous)
	require.Equal(t, "init", list.Checkpoints[2].Phase)
	require.FileExists(t, list.Checkpoints[0].File)

	d.prints(`{"current_phase": "think", "requirement": "Make it so."}`, "checkpoints", "show", "s-1", "think")
	require.Contains(t, d.must(0, "checkpoints", "show", "s-1"), "storage = memory")
	d.must(0, "checkpoints", "show", "s-1", list.Checkpoints[1].Checkpoint[:12])
	require.Equal(t, 2, d.run("checkpoints", "show", "s-1", "nowhere").code)

	require.Contains(t, d.must(0, "checkpoints", "verify", "s-1"), "all intact")
	require.Contains(t, d.must(0, "checkpoints", "verify", "--all"), "all intact")
	require.Equal(t, 2, d.run("checkpoints", "verify", "nobody").code)

	name := list.Checkpoints[1].Checkpoint
	blob := filepath.Join(d.state, "blobs", "sha256", name[:2], name[2:])
	data, err := os.ReadFile(blob)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.Chmod(blob, 0o600))
	require.NoError(t, os.WriteFile(blob, data, 0o600))
	report := d.must(1, "checkpoints", "verify", "s-1", "-o", "json")
	require.True(t, jsontest.Has(t, report, `{"faults": [{}]}`), report)
	require.Regexp(t, `"path": ".*`+name[2:]+`"`, report)
	require.Regexp(t, `"moved_to": ".+"`, report)
}

func TestASpentSessionExitsOneWithEveryAttempt(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"writer": writerScript, "coder": "echo 'the model is out' >&2; exit 7"})
	run := []string{"run", d.file("team.yaml", twoTeam), "-", "--session", "s-2", "--watch", "-o", "json"}
	d.ends(2, "", run...) // standard input is empty
	d.stdin = "Build it."
	got := d.ends(1, "think: completed", run...)
	require.True(t, jsontest.Has(t, got.stdout.String(), `{"session": "s-2"}`), "the progress is no part of the document")
	for _, want := range []string{
		"build/dev failed: unknown:", "  attempt 1-2: unknown:",
		"its output: maestro logs s-2 build/dev",
	} {
		require.Contains(t, got.stderr.String(), want)
	}
	require.Equal(t, 1, d.run("watch", "s-2").code)
	require.Contains(t, d.must(0, "logs", "s-2", "build/dev"), "the model is out")
}

// TestWorkIsDoneOnWhatWasDoneAgain: files of an attempt that failed on the old input are not kept.
func TestWorkIsDoneOnWhatWasDoneAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	word := d.file("word", "old")
	d.withWorker(map[string]string{
		"writer": "mkdir -p docs; cat " + word + " > docs/plan.md",
		"coder":  "cat docs/plan.md > built.txt; if grep -q new docs/plan.md; then touch code.txt; fi",
	})
	require.Equal(t, 1, d.run("run", d.file("team.yaml", twoTeam), "Build it.", "--session", "s", "--watch").code)
	d.file("word", "new")
	d.must(0, "resume", "s", "--force", "think", "--watch")
	out := filepath.Join(d.dir, "out")
	d.must(0, "artifacts", "get", "s", "--out", out)
	require.Equal(t, map[string]string{"docs/plan.md": "new", "built.txt": "new", "code.txt": ""}, tree(t, out))
}

func TestASessionIsCancelledWatchedAndLeftAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	worker := d.withWorker(map[string]string{"coder": "echo 'step one' >&2; sleep 600"})
	var started struct{ Session, Store, RunID string }
	out := d.must(0, "run", d.file("team.yaml", oneTeam), "Take your time.", "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(out, "run_id", "RunID")), &started))
	require.Regexp(t, `^solo-\d{8}-[a-z2-7]{6}$`, started.Session)
	require.NotEmpty(t, started.RunID)

	watch := d.begin("watch", started.Session)
	watch.shows("build/dev: step one")
	watch.interrupt()
	require.Equal(t, 130, watch.wait())
	require.Contains(t, watch.stderr.String(), "session "+started.Session+" continues; watch it again")

	s := d.becomes(started.Session, func(s session.Status) bool { // the next heartbeat tells the server
		return s.Phases[0].Assignments[0].Progress == "step one"
	})
	require.Equal(t, session.Running, s.Status)

	elsewhere := *d // without a store, and with another
	elsewhere.set("MAESTRO_STATE_DIR", filepath.Join(d.dir, "elsewhere"))
	elsewhere.ends(2, "is not a store", "status", started.Session)
	elsewhere.withStore()
	elsewhere.prints(`{"status": "running", "team": "solo"}`, "status", started.Session)

	worker.interrupt()
	require.Equal(t, 0, worker.wait(), worker.stderr.String())
	s = d.becomes(started.Session, func(s session.Status) bool { return strings.Contains(s.Reason, "no worker") })
	require.Equal(t, session.Running, s.Status)
	require.Equal(t, session.Waiting, s.Phases[0].Assignments[0].Status)
	require.Zero(t, s.Phases[0].Assignments[0].Attempts)

	d.withWorker(map[string]string{"coder": "sleep 600"})
	require.Contains(t, d.must(0, "cancel", started.Session, "--watch"), "cancelled")
	require.Equal(t, 1, d.run("watch", started.Session).code)
	require.Equal(t, session.WasCancelled, d.status(started.Session).Status)
}
