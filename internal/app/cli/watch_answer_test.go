package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// keyTeam waits for an approval, and then with two requests for help at once.
const keyTeam = `
version: 1
name: keys
personas:
  analyst: {role: Analyst, agent: writer, instructions: "Write docs."}
  dev: {role: Developer, agent: coder, instructions: "Write code."}
  tester: {role: Tester, agent: other, instructions: "Write tests."}
phases:
  - {name: think, personas: [analyst], approve: true}
  - {name: build, personas: [dev, tester]}
retry: {rounds: 1, attempts: 1, initial: 10ms, max: 10ms}
help: {mode: ask}
`

func TestASessionIsAnsweredByKeysWhileItIsWatched(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{
		"writer": heedingWriter, "coder": stubbornCoder,
		"other": strings.ReplaceAll(stubbornCoder, "code.txt", "tests.txt"),
	})
	d.must(0, "run", d.file("team.yaml", keyTeam), "Make it so.", "--session", "s")
	x := d.onTerminal(80, 24, nil, "watch", "s")
	x.shows("think needs approval")
	x.shows("a approve  x reject")
	x.types("x\r")
	x.shows("describe what is wrong")
	x.types("Use SQLite.")
	x.shows("what is wrong: Use SQLite.▏")
	x.types("\r")
	x.shows("session s continues: the work of phase think is done again")
	x.showsLine(`analyst .*completed, .*2`)
	x.types("j")
	x.shows("a approve  x reject")
	x.types("aFine\x1b")
	x.shows("nothing was sent")
	require.Equal(t, session.AwaitingApproval, d.standing("s"))
	x.types("a\r")
	x.shows("r retry")

	// Two requests: Tab takes the other one. What somebody else has answered meanwhile is
	// refused.
	x.shows("build/tester needs help")
	x.shows("build/dev needs help")
	x.types("r")
	x.showsLine(`retry build/dev \([12] of 2, Tab: next\)`)
	x.resize(40, 24)
	x.shows("note for the agent: ▏")
	d.must(0, "resolve", "s", "retry", "--for", "build/dev", "--note", "The port is 8081.")
	x.types("\r")
	x.shows("· not sent: request build.dev.1 is not")
	x.resize(80, 24)
	x.showsLine(`✓ dev .*completed`)
	x.types("r")
	x.shows("retry build/tester")
	x.types("The port is 8081.\r")
	code, printed := x.ends()
	require.Equal(t, 0, code, printed)
	require.Contains(t, d.must(0, "artifacts", "get", "s", "docs/design.md", "tests.txt", "--out", d.dir+"/out"), "tests.txt")
}

// Who leaves a session that waits is told how it continues, as without a terminal.
func TestLeavingASessionThatWaits(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"writer": heedingWriter, "coder": stubbornCoder, "other": stubbornCoder})
	x := d.onTerminal(80, 24, nil, "run", d.file("team.yaml", keyTeam), "Make it so.", "--session", "s", "--watch")
	x.shows("a approve  x reject")
	x.types("q")
	code, _ := x.ends()
	require.Equal(t, 3, code)
	require.Contains(t, x.sees(), "maestro approve s think")
}

// A budget is raised by a key, with a server and without: first the amount, then the note.
func TestABudgetIsRaisedByKey(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(*desk) *desk{
		"here": func(d *desk) *desk { return d }, "with a server": func(d *desk) *desk { return d.served(nil, "operator").away() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			budgetRaisedByKey(t, at)
		})
	}
}

func budgetRaisedByKey(t *testing.T, at func(*desk) *desk) {
	t.Helper()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"coder": `echo '{"usage": {"input_tokens": 60}}' > "$MAESTRO_RESULT"; echo x > code.txt`})
	team := strings.Replace(oneTeam, "phases:", "  next: {role: Developer, agent: coder, instructions: x}\nphases:", 1) +
		"  - {name: more, personas: [next]}\nbudget: {tokens: 50, on_exceeded: ask}\n"
	d.must(0, "run", d.file("team.yaml", team), "Make it so.", "--session", "s")
	x := at(d).onTerminal(80, 24, nil, "watch", "s")
	x.shows("needs a larger budget")
	x.types("+lots\r\r")
	x.shows(`not sent: "lots" is not an amount`)
	x.types("+1k\r")
	x.shows("raise more/next by 1k")
	x.types("more to do\r")
	code, printed := x.ends()
	require.Equal(t, 0, code, printed)
	require.Contains(t, d.must(0, "budget", "show", "s"), "1,050 tokens")
}

// standing is where a session stands.
func (d *desk) standing(sessionID string) session.State {
	var s session.Status
	d.json(&s, "status", sessionID)
	return s.Status
}
