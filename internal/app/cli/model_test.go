package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// modelTeam has one persona whose agent is a model.
const modelTeam = `
version: 1
name: solo
personas:
  dev: {role: Developer, agent: model, instructions: "Write code."}
phases:
  - {name: build, personas: [dev], produces: [code.txt]}
`

// withModel serves the desk's store with a model as the agent. The settings are those of its provider.
func (d *desk) withModel(script providertest.Script, settings ...string) {
	d.t.Helper()
	server := providertest.New(d.t, script)
	provider := strings.Join(append([]string{"format: anthropic, base_url: " + server.URL()}, settings...), ", ")
	file := d.file("agents.yaml", "version: 1\nproviders: {p: {"+provider+"}}\nagents:\n  model: {kind: model, provider: p, model: some-model}\n")
	d.serves(file)
}

// A model is seen at work as a program is: what it says while it says it, the tools that
// it calls, and what they bring.
func TestAModelIsFollowed(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	held := map[int]chan struct{}{1: make(chan struct{}), 2: make(chan struct{})}
	d.withModel(func(r providertest.Request) providertest.Reply {
		type args = map[string]any
		var reply providertest.Reply
		switch r.Turn() {
		case 1:
			reply = providertest.Use(providertest.Tool("write", args{"path": "code.txt", "content": strings.Repeat("a line of code\n", 40)}))
			reply.Text = "First I write.\n" + strings.Repeat("More words follow here.\n", 20)
		case 2:
			reply = providertest.Use(providertest.Tool("decide", args{"name": "language", "value": "Go"}),
				providertest.Tool("edit", args{"path": "code.txt", "old": "no such line", "new": "x"}))
			reply.Text = "Then I decide."
		default:
			reply = providertest.Use(providertest.Tool("finish", args{"summary": "done"}))
		}
		reply.Fault.Hold = func(sent int) <-chan struct{} {
			if sent != 6 {
				return nil
			}
			return held[r.Turn()]
		}
		return reply
	})
	d.must(0, "run", d.file("team.yaml", modelTeam), "Make it so.", "--session", "s")
	follow, full, plain := d.begin("logs", "-f", "s"), d.begin("logs", "-f", "--full", "s"), d.begin("watch", "s")
	screen := d.onTerminal(80, 24, nil, "watch", "s")
	follow.shows("build/dev | -- turn 1: asking some-model\nbuild/dev | First I write.\n")
	require.NotContains(t, follow.stdout.String(), "code.txt", "the answer is on its way")
	screen.showsLine(`● dev`)
	screen.shows("More words follow here.")
	plain.shows("build/dev: More words follow here.")
	close(held[1])
	follow.shows("build/dev | > write code.txt\nbuild/dev |   │ a line of code\n")
	follow.shows("build/dev |   │ … 28 more lines: --full shows them\nbuild/dev | -- turn 1: done; tokens: ")
	follow.shows("build/dev | < write code.txt: Wrote code.txt: 600 bytes.\n")
	close(held[2])
	require.Equal(t, 0, follow.wait(), follow.stderr.String())
	require.Equal(t, 0, full.wait())
	require.Equal(t, 0, plain.wait())
	screen.ends()

	require.Equal(t, 40, strings.Count(full.stdout.String(), "a line of code\n"))
	printed := follow.stdout.String()
	require.Equal(t, 1, strings.Count(printed, "Then I decide."), printed)
	require.Equal(t, 12, strings.Count(printed, "a line of code\n"), printed)
	require.Contains(t, printed, "-- decided language = Go\n")
	brief, whole := d.must(0, "logs", "s"), d.must(0, "logs", "--full", "s")
	require.Equal(t, 12, strings.Count(brief, "a line of code\n"))
	require.Equal(t, 40, strings.Count(whole, "a line of code\n"))
	for _, want := range []string{"First I write.\n", "> decide language = Go\n", "> edit code.txt\n  │ - no such line\n  │ + x\n", "< edit code.txt: failed: old does not occur"} {
		require.Contains(t, brief, want)
	}
	var doc struct {
		Logs []struct {
			Text      string
			Decisions map[string]string
		}
	}
	d.json(&doc, "logs", "s")
	require.Equal(t, 40, strings.Count(doc.Logs[0].Text, "a line of code\n"), fmt.Sprint(doc))
	require.Equal(t, map[string]string{"language": "Go"}, doc.Logs[0].Decisions)
}
