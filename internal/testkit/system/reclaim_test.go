package system

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

const tookUp = "retried activities that a crash had interrupted"

// TestKilledWorkerTakesItsWorkUpAgain kills a worker three times and starts it
// again on its host: its agents are at work again without a wait for the heartbeat's timeout.
func TestKilledWorkerTakesItsWorkUpAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	teamFile := w.withHoldingAgent()
	worker := w.startWorker()
	phases := []string{"requirements", "design", "implementation"}
	for _, phase := range phases {
		w.hold(phase)
	}
	w.must("run", teamFile, "again", "--session", "again")
	for _, phase := range phases {
		before := w.held("again", phase)
		worker.kill()
		worker = w.startWorker()
		w.eventually("it is at work again", func() bool { return w.held("again", phase) != before })
		require.Contains(t, worker.output.String(), tookUp)
		w.release(phase)
	}
	s := w.completes("again")
	for i := range phases {
		require.Equal(t, 1, s.Phases[i].Assignments[0].LostWorkers)
	}
	w.sound(s)
}

// TestNobodyTakesUpTheWorkOfTheLiving starts workers beside one that is frozen
// and one that is at work: only the dead one's work is taken up.
func TestNobodyTakesUpTheWorkOfTheLiving(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	teamFile := w.withHoldingAgent()
	w.concurrency(1) // so that each worker has one session
	w.hold("design")
	var workers []*process
	agents := map[string]int{}
	for _, sessionID := range []string{"frozen", "dead", "at-work"} {
		workers = append(workers, w.startWorker())
		w.must("run", teamFile, "mine", "--session", sessionID)
		agents[sessionID] = w.held(sessionID, "design")
	}
	workers[0].signal(syscall.SIGSTOP)
	workers[1].kill()
	again := w.startWorker()
	require.Equal(t, 1, strings.Count(again.output.String(), tookUp))
	require.Contains(t, again.output.String(), "activities=1\n")
	w.eventually("the dead one's work goes on", func() bool { return w.held("dead", "design") != agents["dead"] })
	for _, sessionID := range []string{"frozen", "at-work"} {
		require.Equal(t, 1, w.executed(sessionID)["design"], sessionID)
		require.NoError(t, syscall.Kill(agents[sessionID], 0), sessionID)
	}
	workers[0].signal(syscall.SIGCONT)
	w.release("design")
	var ended []session.Status
	for sessionID := range agents {
		ended = append(ended, w.ends(sessionID))
	}
	for _, s := range ended {
		require.Equal(t, session.Completed, s.Status, "%+v", s)
		w.sound(s)
	}
}

// killingAgent kills its worker, which is the parent of its own parent, if that
// is the one that the test has started.
const killingAgent = `#!/bin/sh
ledger=$1
echo x >> "$ledger/executed"
while :; do
  worker=$(cut -d ' ' -f 4 "/proc/$PPID/stat")
  if [ "$worker" = "$(cat "$ledger/worker")" ]; then kill -9 "$worker"; fi
  sleep 0.02
done
`

// TestAgentThatKillsItsWorkerIsGivenUp has an agent that takes its worker down
// every time, and a worker that is always started again.
func TestAgentThatKillsItsWorkerIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.without = proctest.Landlock // which keeps signals from the worker
	script := w.write("killing.sh", killingAgent)
	w.write("agents.yaml", "version: 1\nisolation: none\nagents:\n  killing: {kind: command, argv: ["+script+", "+w.ledger("")+"]}\n")
	teamFile := w.write("team.yaml", `version: 1
name: deadly
personas: {worker: {role: Worker, agent: killing, instructions: Do the phase.}}
phases: [{name: design, personas: [worker]}]
help: {mode: fail}
`)
	start := func() *process {
		worker := w.startWorker()
		w.write("ledger/worker", strconv.Itoa(worker.cmd.Process.Pid))
		return worker
	}
	worker := start()
	w.must("run", teamFile, "die", "--session", "deadly")
	for range 5 {
		w.dies(worker)
		worker = start()
	}
	s := w.ends("deadly")
	require.Equal(t, session.Failed, s.Status, "%+v", s)
	require.Len(t, s.Help, 1)
	require.Equal(t, failures.WorkerLost, s.Help[0].Category)
	a := s.Phases[0].Assignments[0]
	require.Equal(t, 5, a.LostWorkers)
	require.Zero(t, a.Attempts)
	require.Equal(t, 1, a.Rounds, "another round would lose five more")
	require.Len(t, w.lines("executed"), 5)
	require.Empty(t, w.agents())
	w.must("checkpoints", "verify", "--all")
}
