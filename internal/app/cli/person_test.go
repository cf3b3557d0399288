package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/testkit/jsontest"
	"github.com/maestro-hive/maestro/internal/testkit/postgrestest"
)

// askingTeam has a phase that is to be approved, and one whose persona may need help.
const askingTeam = `
version: 1
name: asking
personas:
  analyst: {role: Analyst, agent: writer, instructions: "Write docs."}
  dev: {role: Developer, agent: coder, instructions: "Write code."}
phases:
  - {name: think, personas: [analyst], approve: true, produces: ["docs/*.md"]}
  - {name: build, personas: [dev], checks: [has-code]}
retry: {attempts: 1, rounds: 1, initial: 10ms, max: 10ms}
help: {mode: ask}
`

const (
	// heedingWriter writes a line, and another one when it is told more.
	heedingWriter = `brief=$(cat); mkdir -p docs; echo "# Design" > docs/design.md
case "$brief" in *SQLite*) echo "SQLite" >> docs/design.md;; esac`
	// stubbornCoder fails unless it is told how to do it.
	stubbornCoder = `brief=$(cat); case "$brief" in *"port is 8081"*) echo "port 8081" > code.txt;; *) echo "which port" >&2; exit 7;; esac`
)

// asked waits until a session waits for a person with nothing else at work, and
// returns its only request.
func (d *desk) asked(sessionID, phase string, kind session.RequestKind) session.Request {
	d.t.Helper()
	return d.becomes(sessionID, func(s session.Status) bool {
		return settled(s.Status) && len(s.Help) == 1 && s.Help[0].Phase == phase && s.Help[0].Kind == kind
	}).Help[0]
}

func settled(s session.State) bool { return s == session.HelpIsNeeded || s == session.AwaitingApproval }

func TestASessionGoesOnAtAPersonsWords(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"writer": heedingWriter, "coder": stubbornCoder})
	got := d.ends(3, "maestro approve s think", "run", d.file("team.yaml", askingTeam), "Make it so.", "--session", "s", "--watch")
	require.Contains(t, got.stdout.String(), "think: needs approval: phase think is done")

	first := d.asked("s", "think", session.ForApproval)
	d.ends(2, "answer with: maestro approve s think", "resume", "s")
	d.ends(2, "request build is not open in session s; open requests:\n  "+first.ID, "approve", "s", "build")
	d.ends(2, "run `maestro approve s think`", "resolve", "s", "retry")
	require.Equal(t, "session s continues: the work of phase think is done again with your note\n",
		d.must(0, "reject", "s", "think", "--note", "Use SQLite."))

	var second session.Request
	until(t, func() bool {
		second = d.asked("s", "think", session.ForApproval)
		return second.ID != first.ID
	}, "it does not ask again")
	require.Contains(t, d.must(0, "artifacts", "diff", "s", "think"), "+SQLite\n")
	d.ends(1, "request "+first.ID+" is not open in session s", "reject", "s", "--request", first.ID, "--note", "stale")
	require.Equal(t, 2, d.run("approve", "s", "--note", "Agreed.", "--by", "ann").code,
		"the work was done again since the first request")
	d.prints(`{"taken": true, "answer": {"action": "approve", "by": "ann", "phase": "think"}}`, "approve", "s", "--request",
		second.ID, "--note", "Agreed.", "--by", "ann")

	h := d.asked("s", "build", session.ForHelp)
	require.Equal(t, 3, d.run("watch", "s").code)
	t.Run("inbox", func(t *testing.T) { testInbox(t, d, h) })
	d.must(0, "resolve", "s", "retry", "--note", "The port is 8081.")
	require.Equal(t, 0, d.run("watch", "s").code)
	d.prints(`{"interventions": [{}, {}, {}]}`, "status", "s")
	shown := d.must(0, "checkpoints", "show", "s")
	require.Contains(t, shown, "think: approve by ann, ")
	require.Contains(t, shown, "build/dev: retry by ")
	require.Contains(t, shown, "Use SQLite.")
	d.ends(1, "session s is completed; no request is open", "resolve", "s", "retry")
	require.Contains(t, d.run("inbox").stderr.String(), "no open requests")
}

func testInbox(t *testing.T, d *desk, h session.Request) {
	d.prints(`{"waiting": [{"id": "`+h.ID+`"}]}`, "inbox")
	until(t, func() bool {
		return strings.Contains(d.run("list").stderr.String(), "1 session waits open: `maestro inbox`")
	}, "Temporal's list is never up to date")

	elsewhere := *d // with another store
	elsewhere.t = t
	elsewhere.set("MAESTRO_STATE_DIR", filepath.Join(d.dir, "elsewhere"))
	elsewhere.withStore()
	until(t, func() bool {
		return jsontest.Has(t, elsewhere.must(0, "inbox", "-o", "json"),
			`{"waiting": [{"status": "help_needed", "commands": ["maestro status s"]}]}`)
	}, "the session is not listed")
	elsewhere.ends(1, "session s has no open request", "resolve", "s", "supply", d.dir)
}

func TestFilesOfAPersonStandForTheWork(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	worker := d.withWorker(map[string]string{"coder": stubbornCoder})
	teamFile := d.file("team.yaml", oneTeam+"retry: {attempts: 1, rounds: 1}\n")
	require.Equal(t, 3, d.run("run", teamFile, "Make it so.", "--session", "s", "--watch").code)
	d.asked("s", "build", session.ForHelp)
	d.ends(2, "cannot be read", "resolve", "s", "supply", filepath.Join(d.dir, "nowhere"))

	// Without a worker the answer waits for one.
	worker.interrupt()
	require.Equal(t, 0, worker.wait(), worker.stderr.String())
	d.prints(`{"waiting": [{}]}`, "inbox")
	got := d.ends(0, "mine.txt is used as code.txt", "resolve", "s", "supply", d.file("mine.txt", "package mine\n"))
	require.Contains(t, got.stdout.String(), "no worker answered within 10s")
	d.withWorker(map[string]string{"coder": stubbornCoder})
	require.Equal(t, session.Supplied, d.becomes("s", in(session.Completed)).Phases[0].Assignments[0].Status)
	require.Regexp(t, `(?m)^== build/dev, round 2, attempt 1: supplied\nsupplied by .*@desk: code.txt, `, d.must(0, "logs", "s"))
	out := filepath.Join(d.dir, "out")
	d.must(0, "artifacts", "get", "s", "--out", out)
	require.Equal(t, "package mine\n", tree(t, out)["code.txt"])
}

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
		got := alone.ends(0, "following only the store", "logs", "-f", "s", "build")
		require.Contains(t, got.stdout.String(), "== build/dev, pass 2, round 1, attempt 1: completed\n")
	})
}

// testPasses has a person try again what has failed, and looks at both passes.
func testPasses(t *testing.T, d *desk) {
	h := d.asked("s", "build", session.ForHelp)
	d.must(0, "resolve", "s", "retry", "--request", h.ID, "--note", "The port is 8081.")
	require.Equal(t, 0, d.run("watch", "s").code)
	require.Equal(t, 0, d.run("logs", "-f", "s").code)
	require.Contains(t, d.run("logs", "s", "--tail", "0").stderr.String(), "--tail and --since omit")
	d.prints(`{"logs": [{"pass": 2}]}`, "logs", "s", "--tail", "1")
	d.prints(`{"logs": [{}, {}, {}, {}]}`, "logs", "s", "--since", "1h")
	d.prints(`{"logs": []}`, "logs", "s", "--since", "1ns")
}

// TestFollowedLogsSurviveALostWorkerAndALostConnection: each line is printed once.
func TestFollowedLogsSurviveALostWorkerAndALostConnection(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	line := postgrestest.StartProxy(t, d.variable("TEMPORAL_ADDRESS"))
	agents := map[string]string{"coder": gated(d, "coder")}
	lost := d.withWorker(agents)
	d.must(0, "run", d.file("team.yaml", strings.ReplaceAll(oneTeam, ", produces: [code.txt]", "")), "Make it so.", "--session", "s")
	watching := *d
	watching.set("TEMPORAL_ADDRESS", line.Address)
	follow := watching.begin("logs", "-f", "s")
	follow.shows("build/dev | coder is under way")
	lost.interrupt()
	lost.wait()
	worker := d.withWorker(agents)
	follow.shows("build/dev | maestro: the attempt was interrupted here, and continues\nbuild/dev | coder is under way\n")
	line.SetDown(true)
	follow.says("lost the connection to Temporal at " + line.Address)
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "go-coder"), nil, 0o600))
	line.SetDown(false)
	follow.shows("coder is done\n")
	require.Equal(t, 0, follow.wait(), follow.stderr.String())
	require.Contains(t, follow.stderr.String(), "reconnected\nsession s: completed\n")
	for text, times := range map[string]int{"under way": 2, "step 9": 2, "interrupted here": 1, "is done": 1, "== build/dev": 1} {
		require.Equal(t, times, strings.Count(follow.stdout.String(), text), text)
	}
	worker.interrupt()
}
