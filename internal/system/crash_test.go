package system

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/team"
)

// holdingAgent notes each of its executions in the ledger, leaves a document,
// and holds for as long as the test wants it to.
const holdingAgent = `#!/bin/sh
ledger=$1
phase=$(sed 's/.*"phase":"\([^"]*\)".*/\1/')
echo "$phase" >> "$ledger/executed"
echo "work of $phase" > "$phase.md"
if [ -e "$ledger/hold-$phase" ]; then
  echo $$ > "$ledger/holding-$phase"
  while [ -e "$ledger/hold-$phase" ]; do sleep 0.05; done
fi
printf '{"summary":"did %s","usage":{"input_tokens":10,"output_tokens":1}}' "$phase" > "$MAESTRO_RESULT"
`

const fivePhases = `version: 1
name: five
personas:
  worker: {role: Worker, agent: holding, instructions: Do the phase.}
phases:
  - {name: requirements, personas: [worker], produces: [requirements.md]}
  - {name: design, personas: [worker], produces: [design.md]}
  - {name: implementation, personas: [worker], produces: [implementation.md]}
  - {name: testing, personas: [worker], produces: [testing.md]}
  - {name: deployment, personas: [worker], produces: [deployment.md]}
`

// withHoldingAgent writes the team and worker files of the tests here.
func (w *world) withHoldingAgent() (teamFile string) {
	script := w.write("holding.sh", holdingAgent)
	w.write("agents.yaml", "version: 1\nagents:\n  holding: {kind: command, argv: ["+script+", "+filepath.Join(w.dir, "ledger")+"]}\n")
	return w.write("team.yaml", fivePhases)
}

// executed counts the executions of each phase.
func (w *world) executed() map[string]int {
	w.t.Helper()
	data, err := os.ReadFile(w.ledger("executed"))
	require.NoError(w.t, err)
	counts := map[string]int{}
	for _, phase := range strings.Fields(string(data)) {
		counts[phase]++
	}
	return counts
}

// held waits until an agent holds in the phase and returns its process id.
func (w *world) held(phase string) int {
	w.t.Helper()
	var pid int
	w.eventually("an agent holds in "+phase, func() bool {
		data, err := os.ReadFile(w.ledger("holding-" + phase))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return err == nil
	})
	return pid
}

func TestFivePhasesCostFewEventsAndCarryNoContents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	teamFile := w.withHoldingAgent()
	w.startWorker()
	require.Equal(t, "plain\n", w.must("run", teamFile, "a very special requirement", "--session", "plain"))
	s := w.ends("plain")
	require.Equal(t, team.Completed, s.Status, "%+v", s)
	require.LessOrEqual(t, s.HistoryEvents, int64(52))
	require.Equal(t, int64(55), s.Usage.Tokens())
	history := w.history("plain")
	require.NotContains(t, history, "work of design", "a file's content")
	require.NotContains(t, history, "Do the phase.", "instructions")
}

// TestCrashInTheThirdPhase kills the worker and then the server in the middle
// of the third phase, and expects the session to go on as if nothing had been.
func TestCrashInTheThirdPhase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	teamFile := w.withHoldingAgent()
	worker := w.startWorker()
	w.write("ledger/hold-implementation", "")
	w.must("run", teamFile, "survive", "--session", "crash")
	agent := w.held("implementation")

	worker.kill()
	w.eventually("the agent dies with its worker", func() bool { return syscall.Kill(agent, 0) != nil })
	w.server.kill()
	require.NoError(t, os.Remove(w.ledger("hold-implementation")))
	w.startServer()
	w.startWorker()

	s := w.ends("crash")
	require.Equal(t, team.Completed, s.Status, "%+v", s)
	require.Equal(t, map[string]int{
		"requirements": 1, "design": 1, "implementation": 2, "testing": 1, "deployment": 1,
	}, w.executed(), "what was recorded is not executed again")
	for _, p := range s.Phases {
		a := p.Assignments[0]
		require.Equal(t, 1, a.Attempts, "%s used up no attempt", p.Name)
		require.Equal(t, 1, a.Rounds)
		lost := 0
		if p.Name == "implementation" {
			lost = 1
		}
		require.Equal(t, lost, a.LostWorkers, p.Name)
	}
	w.must("checkpoints", "verify", "crash")
}

// TestKilledWorkerTakesItsWorkUpAgain kills a worker and starts it again on its
// host: it goes on at once, not when Temporal misses its heartbeat.
func TestKilledWorkerTakesItsWorkUpAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	teamFile := w.withHoldingAgent()
	worker := w.startWorker()
	w.write("ledger/hold-design", "")
	w.must("run", teamFile, "again", "--session", "again")
	w.held("design")
	worker.kill()
	require.NoError(t, os.Remove(w.ledger("hold-design")))
	again := w.startWorker()
	w.eventually("the worker reclaims", func() bool { return strings.Contains(again.output.String(), "took up again what a crash had cut off") })
	s := w.ends("again")
	require.Equal(t, team.Completed, s.Status, "%+v", s)
	require.Equal(t, 1, s.Phases[1].Assignments[0].LostWorkers)
	require.Equal(t, 1, s.Phases[1].Assignments[0].Attempts)
}

// TestStoppedWorkerHandsOver stops a worker in the middle of an attempt: another
// takes over at once, and no attempt is used.
func TestStoppedWorkerHandsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	teamFile := w.withHoldingAgent()
	worker := w.startWorker()
	w.write("ledger/hold-design", "")
	w.must("run", teamFile, "hand over", "--session", "drain")
	agent := w.held("design")
	worker.signal(syscall.SIGTERM)
	<-worker.done
	require.Zero(t, worker.cmd.ProcessState.ExitCode(), worker.output.String())
	require.Error(t, syscall.Kill(agent, 0), "the agent is gone before its worker")
	require.NoError(t, os.Remove(w.ledger("hold-design")))
	w.startWorker()
	s := w.ends("drain")
	require.Equal(t, team.Completed, s.Status, "%+v", s)
	require.Equal(t, 1, s.Phases[1].Assignments[0].Attempts)
	require.Zero(t, s.Phases[1].Assignments[0].LostWorkers)
}

func TestCancelledSessionLeavesNoProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	teamFile := w.withHoldingAgent()
	w.startWorker()
	w.write("ledger/hold-design", "")
	w.must("run", teamFile, "stop", "--session", "stopped")
	agent := w.held("design")
	w.must("cancel", "stopped")
	s := w.ends("stopped")
	require.Equal(t, team.WasCancelled, s.Status)
	require.Error(t, syscall.Kill(agent, 0), "the agent is gone before the session is over")
	require.Equal(t, team.Completed, s.Phases[0].Status)
}
