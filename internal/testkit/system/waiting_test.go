package system

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// moodyAgent fails for as long as the ledger says so, and writes down each of its
// executions.
const moodyAgent = `#!/bin/sh
echo x >> "$1/executed"
if [ -e "$1/down" ]; then echo "out of ideas" >&2; exit 7; fi
cat > brief.json
`

// TestWaitingForAPersonOutlivesEverything kills worker and server under a session
// that waits for a person, who answers while no worker runs.
func TestWaitingForAPersonOutlivesEverything(t *testing.T) {
	t.Parallel()
	w := newWorldAlone(t)
	script := w.write("moody.sh", moodyAgent)
	w.write("agents.yaml", "version: 1\n"+w.mounts()+"\nagents:\n  moody: {kind: command, argv: ["+script+", "+w.ledger("")+"]}\n")
	teamFile := w.write("team.yaml", `version: 1
name: moody
personas: {worker: {role: Worker, agent: moody, instructions: Do the phase.}}
phases: [{name: design, personas: [worker], approve: true, produces: [brief.json]}]
retry: {attempts: 1, rounds: 1}
`)
	w.write("ledger/down", "")
	worker := w.startWorker()
	require.Equal(t, 3, w.maestro("run", teamFile, "ask", "--session", "asks", "--watch").code)
	before := w.status("asks")
	worker.kill()
	w.server.kill()
	w.startServer()

	require.Equal(t, 3, w.maestro("watch", "asks").code)
	var inbox struct {
		Waiting []struct {
			Session  string
			ID       string
			Commands []string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(w.must("inbox", "-o", "json")), &inbox))
	require.Len(t, inbox.Waiting, 1)
	require.Equal(t, before.Help[0].ID, inbox.Waiting[0].ID)
	require.Equal(t, "maestro resolve asks retry", inbox.Waiting[0].Commands[0])
	require.NoError(t, os.Remove(w.ledger("down")))
	require.Contains(t, w.must("resolve", "asks", "retry", "--note", "Mind the gap."), "no worker answered")

	worker = w.startWorker()
	w.shows("asks", "it asks for approval", func(s session.Status) bool { return s.Status == session.AwaitingApproval })
	require.Contains(t, w.must("artifacts", "diff", "asks", "design"), "Mind the gap.", "the agent was told")
	worker.kill()
	w.startWorker()
	w.must("approve", "asks")
	s := w.completes("asks")
	require.Len(t, w.lines("executed"), 2)
	require.Equal(t, 2, s.Phases[0].Assignments[0].Attempts)
	require.Contains(t, w.must("checkpoints", "show", "asks"), "Mind the gap.")
	w.must("checkpoints", "verify", "--all")
}
