package system

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// providerAgent notes each of its executions, holds while the test wants it to,
// and fails as its provider does while the ledger says that it is down.
const providerAgent = `#!/bin/sh
ledger=$1
echo "$2" >> "$ledger/executed"
while [ -e "$ledger/hold" ]; do sleep 0.05; done
if [ -e "$ledger/down" ]; then
  echo '{"error":{"category":"api_error","message":"503"}}' > "$MAESTRO_RESULT"
  exit 1
fi
echo done > done.txt
`

// withProvider writes a worker file for each agent, all behind one breaker, and
// a team file for each.
func (w *world) withProvider(breaker string, agents ...string) {
	script := w.write("provider.sh", providerAgent)
	begins := "version: 1\n" + w.mounts() + "\nagents:\n"
	all := begins
	for _, agent := range agents {
		line := fmt.Sprintf("  %s: {kind: command, argv: [%s, %s, %s], concurrency: 30, breaker: {name: provider, %s}}\n",
			agent, script, filepath.Join(w.dir, "ledger"), agent, breaker)
		w.write(agent+".yaml", begins+line)
		all += line
		w.write("team-"+agent+".yaml", "version: 1\nname: "+agent+"\npersonas:\n  dev: {role: Dev, agent: "+agent+
			", instructions: Work.}\n"+
			"phases:\n  - {name: build, personas: [dev]}\nretry: {attempts: 1, rounds: 1, patience: 0s}\nhelp: {mode: fail}\n")
	}
	w.write("agents.yaml", all)
}

func (w *world) run(agent, sessionID string) {
	w.t.Helper()
	w.must("run", filepath.Join(w.dir, "team-"+agent+".yaml"), "work", "--session", sessionID)
}

func (w *world) breaker(name string) session.BreakerStatus {
	w.t.Helper()
	var b session.BreakerStatus
	require.NoError(w.t, json.Unmarshal([]byte(w.must("breaker", "show", name, "-o", "json")), &b))
	return b
}

// waits waits until a session waits for a breaker and returns its status then. The status is
// written before Temporal has the events of the wait.
func (w *world) waits(sessionID string) session.Status {
	w.t.Helper()
	c := w.client()
	w.eventually("session "+sessionID+" waits in its activity", func() bool {
		described, err := c.DescribeWorkflowExecution(w.t.Context(), sessionID, "")
		return err == nil && slices.ContainsFunc(described.GetPendingActivities(), func(p *workflowpb.PendingActivityInfo) bool {
			return p.GetActivityType().GetName() == string(activities.AwaitBreakerName)
		})
	})
	return w.shows(sessionID, "session "+sessionID+" waits for a breaker",
		func(s session.Status) bool { return s.Status == session.WaitingForBreaker })
}

func (w *world) executions() int {
	data, err := os.ReadFile(w.ledger("executed"))
	if err != nil {
		return 0
	}
	return strings.Count(string(data), "\n")
}

// TestBreakerOpensOnTheFifthFailureAndOutlivesEverything lets an agent fail over
// two workers, kills them and the server, and expects the breaker to stand where
// it stood, the session that waits for it too, and both to continue by themselves.
func TestBreakerOpensOnTheFifthFailureAndOutlivesEverything(t *testing.T) {
	t.Parallel()
	w := newWorldAlone(t)
	w.withProvider("cooldown: 1h", "coder")
	workers := []*process{w.startWorker(), w.startWorker()}
	w.write("ledger/down", "")
	for n := 1; n <= 5; n++ {
		sessionID := fmt.Sprint("fails", n)
		w.run("coder", sessionID)
		require.Equal(t, session.Failed, w.ends(sessionID).Status)
		b := w.breaker("provider")
		require.Equal(t, n, b.Failures)
		require.Equal(t, n == 5, b.State == session.BreakerIsOpen, "after failure %d it is %s", n, b.State)
	}
	w.run("coder", "patient")
	waiting := w.waits("patient")
	require.Zero(t, waiting.Phases[0].Assignments[0].Rounds)
	require.Zero(t, waiting.Phases[0].Assignments[0].Attempts)
	require.Contains(t, waiting.Reason, "maestro breaker show provider")
	before := w.breaker("provider")

	for _, p := range append(workers, w.server) {
		p.kill()
	}
	w.startServer()
	require.Equal(t, before, w.breaker("provider"), "without a worker")
	w.startWorker()
	w.startWorker()
	require.Equal(t, before, w.breaker("provider"))
	again := w.waits("patient")
	require.Equal(t, waiting.HistoryEvents, again.HistoryEvents, "waiting adds no event, whatever dies")
	require.Equal(t, 5, w.executions(), "nothing was tried meanwhile")

	require.NoError(t, os.Remove(w.ledger("down")))
	w.must("breaker", "trip", "provider", "--why", "a shorter cooldown", "--for", "1s")
	s := w.completes("patient")
	require.Equal(t, 1, s.Phases[0].Assignments[0].Rounds)
	require.Equal(t, 1, s.Phases[0].Assignments[0].Attempts)
	require.Less(t, s.HistoryEvents, int64(40))
	after := w.breaker("provider")
	require.Equal(t, session.BreakerClosed, after.State)
	require.Zero(t, after.Failures)
	db, err := state.OpenSQLite(t.Context(), w.state, state.Options{Now: time.Now})
	require.NoError(t, err)
	stored, err := db.Breaker(t.Context(), "provider")
	require.NoError(t, errors.Join(err, db.Close()))
	require.Equal(t, after.Revision, stored.Revision)
}
