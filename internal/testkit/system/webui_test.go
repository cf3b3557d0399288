//go:build system

package system

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// stuckAgent does its work only once a person has told it how. What it complains of
// would be Markdown and HTML, if a page took it for that.
const stuckAgent = `version: 1
agents:
  coder:
    kind: command
    argv:
      - /bin/sh
      - -c
      - |
        cat > brief.json
        if grep -o 'use port 9090 [^"\\]*' brief.json > work.txt; then
          rm brief.json
          echo '{"summary": "listens on <port> 9090", "usage": {"output_tokens": 5}}' > $MAESTRO_RESULT
          exit 0
        fi
        echo '{"usage": {"output_tokens": 7}}' > $MAESTRO_RESULT
        echo 'cannot *listen* on <port> 8080: "in use" --by another' >&2
        exit 1
`

// TestResumeFromTheWebUIAlone has somebody who has nothing but Temporal's Web UI find
// a session that waits for help, read what to do, and do it; then approve what has
// come of it.
func TestResumeFromTheWebUIAlone(t *testing.T) {
	t.Parallel()
	w, ui := newDev(t, stuckAgent)
	teamFile := w.write("team.yaml", `version: 1
name: builders
personas: {builder: {role: Builder, agent: coder, instructions: Build a web server.}}
phases: [{name: build, personas: [builder], produces: [work.txt], approve: true}]
retry: {attempts: 2, initial: 1s, rounds: 1}
help: {mode: ask}
`)
	w.must("run", teamFile, "A web server", "--session", "web-1")
	b := newBrowser(t)

	w.eventually("the session waits for a person", func() bool { return strings.Contains(w.must("inbox"), "web-1") })
	b.visit(ui)
	b.click("main button", "Add Filter")
	b.click("li", "MaestroStatus")
	b.enter("input[placeholder='Enter value...']", "help_needed")
	b.click("button", "Apply")
	b.reads("main", "1 Workflow Refresh")
	b.follows("main a", "web-1", "iframe[title=Summary]")
	b.reads("iframe[title=Summary]", "HELP NEEDED: build/builder waits for a person. See the tab User Metadata")
	b.click("[data-testid=user-metadata-tab]", "User Metadata")
	page := b.details("Help needed: build/builder")
	require.Contains(t, page, `cannot *listen* on <port> 8080: "in use" --by another`)
	require.Contains(t, page, "At the top right, More Actions, Send an Update. Its Name is resolve")
	require.Equal(t, 4, strings.Count(page, `exit status 1: cannot *listen* on <port> 8080: "in use" --by another`),
		"what failed, both attempts, and the row of the assignment: %s", page)
	require.Contains(t, page, "Cost so far: 14 tokens")
	require.Contains(t, page, "Without an answer the session fails at ")

	again := b.copied("Retry:")
	again = strings.Replace(again, `"note": ""`, `"note": "use port 9090 instead"`, 1)
	again = strings.Replace(again, `"by": ""`, `"by": "a stranger"`, 1)
	b.send("resolve", again)
	b.accepted()
	page = b.details("Approval needed: phase build")
	require.NotContains(t, page, "Help needed")
	require.Contains(t, page, "builder: listens on <port> 9090")
	require.Contains(t, page, "files: work.txt")

	b.send("resolve", again)
	b.refused(`request "build.builder.1" is not open; open requests: build.approval.1 (approve, reject)`)
	b.details("Approval needed: phase build")
	b.send("resolve", b.copied("Reject:"))
	b.refused("a rejection needs a note: the personas get this text")
	b.details("Approval needed: phase build")
	b.send("resolve", strings.Replace(b.copied("Approve:"), `"by": ""`, `"by": "a stranger"`, 1))
	b.accepted()
	page = b.details("Session web-1 of team builders: completed")
	require.NotContains(t, page, "needed")
	b.reads("[data-testid=execution-status]", "COMPLETED")

	s := w.completes("web-1")
	require.Equal(t, 3, s.Phases[0].Assignments[0].Attempts)
	out := filepath.Join(w.dir, "out")
	w.must("artifacts", "get", "web-1", "--out", out)
	work, err := os.ReadFile(filepath.Join(out, "work.txt"))
	require.NoError(t, err)
	require.Equal(t, "use port 9090 instead\n", string(work), "the note has reached the agent")
}
