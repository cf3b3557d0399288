package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
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
	var s session.Status
	until(d.t, func() bool {
		d.json(&s, "status", sessionID)
		return settled(s.Status) && len(s.Help) == 1 && s.Help[0].Phase == phase && s.Help[0].Kind == kind
	}, "session %s does not ask: %+v", sessionID, &s)
	return s.Help[0]
}

func settled(s session.State) bool { return s == session.HelpIsNeeded || s == session.AwaitingApproval }

func TestASessionGoesOnAtAPersonsWords(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"writer": heedingWriter, "coder": stubbornCoder})
	got := d.run("run", d.file("team.yaml", askingTeam), "Make it so.", "--session", "s", "--watch")
	require.Equal(t, 3, got.code, "%s", got.stderr.String())
	require.Contains(t, got.stdout.String(), "think: needs approval: phase think is done")
	require.Contains(t, got.stderr.String(), "maestro approve s think")

	first := d.asked("s", "think", session.ForApproval)
	got = d.run("resume", "s")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.stderr.String(), "answer with: maestro approve s think")
	got = d.run("approve", "s", "build")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.stderr.String(), "request build is not open in session s; open requests:\n  "+first.ID)
	got = d.run("resolve", "s", "retry")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.stderr.String(), "run `maestro approve s think`")
	require.Equal(t, "session s continues: the work of phase think is done again with your note\n",
		d.must(0, "reject", "s", "think", "--note", "Use SQLite."))

	var second session.Request
	until(t, func() bool {
		second = d.asked("s", "think", session.ForApproval)
		return second.ID != first.ID
	}, "it does not ask again")
	require.Contains(t, d.must(0, "artifacts", "diff", "s", "think"), "+SQLite\n")
	got = d.run("reject", "s", "--request", first.ID, "--note", "stale")
	require.Equal(t, 1, got.code, "it was open once")
	require.Contains(t, got.stderr.String(), "request "+first.ID+" is not open in session s")
	var answered struct {
		Taken  bool
		Answer session.Answer
	}
	require.Equal(t, 2, d.run("approve", "s", "--note", "Agreed.", "--by", "ann").code,
		"the work was done again since the first request")
	d.json(&answered, "approve", "s", "--request", second.ID, "--note", "Agreed.", "--by", "ann")
	require.True(t, answered.Taken)
	require.Equal(t, session.AnswerApprove, answered.Answer.Action)
	require.Equal(t, "ann", answered.Answer.By)
	require.Equal(t, "think", answered.Answer.Phase)

	h := d.asked("s", "build", session.ForHelp)
	require.Equal(t, 3, d.run("watch", "s").code)
	t.Run("inbox", func(t *testing.T) { testInbox(t, d, h) })
	d.must(0, "resolve", "s", "retry", "--note", "The port is 8081.")
	require.Equal(t, 0, d.run("watch", "s").code)
	var doc struct{ Interventions []sessionstatus.Intervention }
	d.json(&doc, "status", "s")
	require.Len(t, doc.Interventions, 3)
	shown := d.must(0, "checkpoints", "show", "s")
	require.Contains(t, shown, "think: approve by ann, ")
	require.Contains(t, shown, "build/dev: retry by ")
	require.Contains(t, shown, "Use SQLite.")
	got = d.run("resolve", "s", "retry")
	require.Equal(t, 1, got.code, "the session has moved on")
	require.Contains(t, got.stderr.String(), "session s is completed; no request is open")
	require.Contains(t, d.run("inbox").stderr.String(), "no open requests")
}

func testInbox(t *testing.T, d *desk, h session.Request) {
	var doc inbox
	d.json(&doc, "inbox")
	require.Len(t, doc.Waiting, 1)
	require.Equal(t, h.ID, doc.Waiting[0].ID)
	require.Equal(t, "maestro resolve s retry", doc.Waiting[0].Commands[0])
	until(t, func() bool {
		return strings.Contains(d.run("list").stderr.String(), "1 session waits open: `maestro inbox`")
	}, "Temporal's list is never up to date")

	elsewhere := *d // the store is not at hand
	elsewhere.t = t
	elsewhere.set("MAESTRO_STATE_DIR", filepath.Join(d.dir, "elsewhere"))
	until(t, func() bool {
		doc = inbox{}
		elsewhere.json(&doc, "inbox")
		return len(doc.Waiting) == 1 && doc.Waiting[0].Status == string(session.HelpIsNeeded)
	}, "the session is not listed")
	require.Equal(t, []string{"maestro status s"}, doc.Waiting[0].Commands)
	got := elsewhere.run("resolve", "s", "supply", d.dir)
	require.Equal(t, 2, got.code)
	require.Contains(t, got.stderr.String(), "is not a store")
}

func TestFilesOfAPersonStandForTheWork(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	worker := d.withWorker(map[string]string{"coder": stubbornCoder})
	teamFile := d.file("team.yaml", oneTeam+"retry: {attempts: 1, rounds: 1}\n")
	require.Equal(t, 3, d.run("run", teamFile, "Make it so.", "--session", "s", "--watch").code)
	d.asked("s", "build", session.ForHelp)
	got := d.run("resolve", "s", "supply", filepath.Join(d.dir, "nowhere"))
	require.Equal(t, 2, got.code)
	require.Contains(t, got.stderr.String(), "cannot be read")

	// Without a worker the answer waits for one.
	worker.interrupt()
	require.Equal(t, 0, worker.wait(), worker.stderr.String())
	require.Len(t, d.inbox(), 1)
	got = d.run("resolve", "s", "supply", d.file("mine.txt", "package mine\n"))
	require.Equal(t, 0, got.code, got.stderr.String())
	require.Contains(t, got.stdout.String(), "no worker answered within 10s")
	require.Contains(t, got.stderr.String(), "mine.txt is used as code.txt")
	d.withWorker(map[string]string{"coder": stubbornCoder})
	var s session.Status
	until(t, func() bool {
		d.json(&s, "status", "s")
		return s.Status == session.Completed
	}, "the answer is lost: %+v", &s)
	require.Equal(t, session.Supplied, s.Phases[0].Assignments[0].Status)
	require.Regexp(t, `(?m)^== build/dev, round 2, attempt 1: supplied\nsupplied by .*@desk: code.txt, `, d.must(0, "logs", "s"))
	out := filepath.Join(d.dir, "out")
	d.must(0, "artifacts", "get", "s", "--out", out)
	code, err := os.ReadFile(filepath.Join(out, "code.txt"))
	require.NoError(t, err)
	require.Equal(t, "package mine\n", string(code))
}

func (d *desk) inbox() []string {
	d.t.Helper()
	var doc inbox
	d.json(&doc, "inbox")
	var sessions []string
	for _, w := range doc.Waiting {
		sessions = append(sessions, w.Session)
	}
	return sessions
}
