//go:build system

package system

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/testkit/webtest"
)

// twoAgents work without a model: one writes a design, the other builds from it.
const twoAgents = `version: 1
agents:
  designer:
    kind: command
    reserve: {tokens: 50}
    argv: [/bin/sh, -c, 'echo first > design.txt; echo "{\"summary\": \"designed\", \"usage\": {\"output_tokens\": 60}}" > $MAESTRO_RESULT']
  coder:
    kind: command
    reserve: {tokens: 50}
    argv: [/bin/sh, -c, 'sed "s/^/built from /" design.txt > work.txt; echo "{\"summary\": \"built\", \"usage\": {\"output_tokens\": 60}}" > $MAESTRO_RESULT']
`

// designers is a team whose budget is spent after its first phase.
const designers = `version: 1
name: designers
personas:
  designer: {role: Designer, agent: designer, instructions: Design it.}
  builder: {role: Builder, agent: coder, instructions: Build it.}
phases:
  - {name: design, personas: [designer], produces: [design.txt]}
  - {name: build, personas: [builder], needs: [design], produces: [work.txt]}
budget: {tokens: 90, on_exceeded: ask}
help: {mode: ask}
`

// replace replaces what a field has.
func (b *browser) replace(selector, text string) {
	b.t.Helper()
	b.click(selector, "")
	_, err := webtest.Evaluate[string](b.ctx, fmt.Sprintf(`document.querySelector(%s).value = %s`, quoted(selector), quoted(text)))
	b.check(err, "replace "+selector)
}

// TestASessionIsStartedAndContinuedInTheDashboard has a person with nothing but a browser start a
// session of a registered team from the form, raise its budget, fork it, and edit a file and go on.
func TestASessionIsStartedAndContinuedInTheDashboard(t *testing.T) {
	t.Parallel()
	d := newDashboard(t, twoAgents)
	d.must("team", "register", d.write("team.yaml", designers))
	b := d.signIn()

	b.click(".top-end a.btn", "")
	b.enter("#field-requirement", "A web server")
	b.click("#session-more > summary", "")
	b.enter("#field-session", "web-1")
	b.click("button", "Preview")
	b.reads("main", "Team designers would do this")
	b.reads("main", "build after design")
	b.click("button", "Start the session")
	b.reads("main h1", "web-1")

	b.reads(":is(article.request, .request-row)", "build/builder needs a larger budget")
	b.enter(":is(article.request, .request-row) input[name=tokens]", "500")
	b.click(":is(article.request, .request-row) button", "Raise and continue")
	d.completes("web-1")
	b.reads("main", "Completed")

	b.visit("http://" + d.at + "/sessions/web-1/checkpoints")
	b.click("main a", "Fork from build")
	b.reads("main", "design/designer reused")
	b.reads("main", "build/builder runs")
	b.enter("#as", "web-2")
	b.click("button", "Preview again")
	b.click("button", "Start the fork")
	b.reads("main h1", "web-2")
	d.completes("web-2")

	b.visit("http://" + d.at + "/sessions/web-1/phases/design")
	b.click("main a", "Edit this file and go on from it")
	b.replace("textarea", "second\n")
	b.click("button", "See what runs again")
	b.reads("main", "build/builder runs")
	b.click("button", "Resume the session")
	b.reads("main", "Session web-1 goes on.")
	d.completes("web-1")
	out := filepath.Join(d.dir, "out")
	d.must("artifacts", "get", "web-1", "--out", out)
	work, err := os.ReadFile(filepath.Join(out, "work.txt"))
	require.NoError(t, err)
	require.Equal(t, "built from second\n", string(work))
	log := d.must("audit")
	for _, action := range []string{"session.start", "budget.raise", "session.fork", "session.resume"} {
		require.Regexp(t, `link .*`+action+` .* done`, log)
	}
}
