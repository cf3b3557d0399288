package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/testkit/postgrestest"
)

// sideTeam has two personas at work at once, then one that needs a word.
const sideTeam = `
version: 1
name: side
personas:
  left: {role: Left, agent: left, instructions: "Go left."}
  right: {role: Right, agent: right, instructions: "Go right."}
  dev: {role: Developer, agent: coder, instructions: "Write code."}
phases:
  - {name: both, personas: [left, right]}
  - {name: build, personas: [dev]}
retry: {attempts: 1, rounds: 1, initial: 10ms, max: 10ms}
help: {mode: ask}
`

// gated is an agent that says where it is, again and again, and continues once a file is missing.
func gated(d *desk, name string) string {
	return `echo "` + name + ` is under way" >&2; for i in 1 2 3 4 5 6 7 8 9; do printf '` + name +
		` \033[32mstep %d\033[0m\n' $i >&2; done; while [ ! -e ` + filepath.Join(d.dir, "go-"+name) + ` ]; do sleep 0.1; echo "` +
		name + ` waits" >&2; done; echo "` + name + ` is done" >&2; echo x > ` + name + `.txt`
}

func TestLogsAreFollowed(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"left": gated(d, "left"), "right": gated(d, "right"), "coder": stubbornCoder})
	d.must(0, "run", d.file("team.yaml", sideTeam), "Make it so.", "--session", "s")

	all, one, documents := d.begin("logs", "-f", "s"), d.begin("logs", "-f", "s", "both/right"),
		d.begin("logs", "-f", "s", "-o", "json")
	all.shows("both/left | left is under way\n")
	all.shows("both/right | right is under way\n")
	for _, step := range []string{"1", "5", "9"} { // each line, however fast they come
		all.shows("both/left | left step " + step + "\n")
	}
	d.file("go-left", "")
	all.shows("== both/left, round 1, attempt 1: completed\n")
	require.Equal(t, 1, strings.Count(all.stdout.String(), "left is under way\n"), "what was printed before is not printed again")
	require.Equal(t, 1, strings.Count(all.stdout.String(), "left is done\n"))
	require.NotContains(t, all.stdout.String(), "right is done")
	interrupted := d.begin("logs", "-f", "s", "--tail", "0")
	interrupted.shows("both/right | right waits")
	interrupted.interrupt()
	require.Equal(t, 130, interrupted.wait())
	for _, old := range []string{"==", "in flight", "step"} {
		require.NotContains(t, interrupted.stdout.String(), old, "what was printed before was not wanted")
	}
	require.Contains(t, interrupted.stderr.String(), "session s continues; follow it again: maestro logs -f s")

	until(t, func() bool { return strings.Count(documents.stdout.String(), `"progress"`) >= 2 },
		"what is printed is no document: %s", &documents.stdout)
	d.file("go-right", "")
	require.Equal(t, 3, all.wait(), all.stderr.String())
	require.Contains(t, all.stdout.String(), "== build/dev, round 1, attempt 1: failed\n")
	require.Contains(t, all.stderr.String(), "session s: help_needed\nmore: maestro status s\n")
	require.Equal(t, 1, strings.Count(all.stdout.String(), "== both/left"), "each attempt is printed once")
	require.Equal(t, 3, one.wait())
	require.Contains(t, one.stdout.String(), "right is done\n")
	require.NotContains(t, one.stdout.String(), "left")
	require.Equal(t, 3, documents.wait())
	kinds := map[string]int{}
	for line := range strings.Lines(documents.stdout.String()) {
		var doc struct {
			Kind, Phase, Persona, Text, Session string
			Status                              session.State
			Pass                                int
		}
		require.NoError(t, json.Unmarshal([]byte(line), &doc), line)
		kinds[doc.Kind]++
		if doc.Kind == "attempt" {
			require.Equal(t, 1, doc.Pass)
		}
	}
	require.Equal(t, 3, kinds["attempt"], kinds)
	require.Equal(t, 1, kinds["session"])

	late := d.run("logs", "-f", "s", "both/left")
	require.Contains(t, late.stdout.String(), "left is under way\nleft step 1\n", "who comes late gets it as a whole")
	t.Run("passes", func(t *testing.T) { testPasses(t, d) })
	t.Run("without Temporal", func(t *testing.T) {
		alone := *d
		alone.t = t
		alone.set("TEMPORAL_ADDRESS", "127.0.0.1:1")
		got := alone.run("logs", "-f", "s", "build")
		require.Equal(t, 0, got.code, got.stderr.String())
		require.Contains(t, got.stderr.String(), "following only the store")
		require.Contains(t, got.stdout.String(), "== build/dev, pass 2, round 1, attempt 1: completed\n")
	})
}

// testPasses has a person try again what has failed, and looks at both passes.
func testPasses(t *testing.T, d *desk) {
	h := d.asked("s", "build", session.ForHelp)
	d.must(0, "resolve", "s", "retry", "--request", h.ID, "--note", "The port is 8081.")
	require.Equal(t, 0, d.run("watch", "s").code)
	require.Equal(t, 0, d.run("logs", "-f", "s").code)
	var doc struct {
		Logs []struct {
			Phase string
			Pass  int
		}
	}
	d.json(&doc, "logs", "s", "--tail", "1")
	require.Contains(t, d.run("logs", "s", "--tail", "0").stderr.String(), "--tail and --since omit")
	require.Len(t, doc.Logs, 1)
	require.Equal(t, 2, doc.Logs[0].Pass)
	d.json(&doc, "logs", "s", "--since", "1h")
	require.Len(t, doc.Logs, 4)
	d.json(&doc, "logs", "s", "--since", "1ns")
	require.Empty(t, doc.Logs)
}

func TestFollowedLogsSurviveALostConnection(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	line := postgrestest.StartProxy(t, d.variable("TEMPORAL_ADDRESS"))
	worker := d.withWorker(map[string]string{"coder": gated(d, "coder")})
	d.must(0, "run", d.file("team.yaml", strings.ReplaceAll(oneTeam, ", produces: [code.txt]", "")), "Make it so.", "--session", "s")
	watching := *d
	watching.set("TEMPORAL_ADDRESS", line.Address)
	follow := watching.begin("logs", "-f", "s")
	follow.shows("build/dev | coder is under way")
	line.SetDown(true)
	follow.says("lost the connection to Temporal at " + line.Address)
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "go-coder"), nil, 0o600))
	follow.shows("coder is done\n") // the store has it
	line.SetDown(false)
	require.Equal(t, 0, follow.wait(), follow.stderr.String())
	require.Contains(t, follow.stderr.String(), "reconnected\nsession s: completed\n")
	worker.interrupt()
}
