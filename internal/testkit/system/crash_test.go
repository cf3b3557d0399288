package system

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/sandbox/proctree"
)

// The parts of the agents of these tests: each notes its executions in the ledger
// and leaves a document; says what it has done; and holds for as long as the test
// wants it to.
const (
	agentBegins = `#!/bin/sh
ledger=$1
brief=$(cat)
session=$(echo "$brief" | sed 's/.*"session":"\([^"]*\)".*/\1/')
phase=$(echo "$brief" | sed 's/.*"phase":"\([^"]*\)".*/\1/')
echo "$phase" >> "$ledger/executed-$session"
echo "work of $phase" > "$phase.md"
`
	agentReports = `printf '{"summary":"did %s","usage":{"input_tokens":10,"output_tokens":1}}' "$phase" > "$MAESTRO_RESULT"
`
	agentHolds = `if [ -e "$ledger/hold-$phase" ]; then
  sh -c 'echo > "$1"; while [ -e "$0" ]; do sleep 0.05; done' "$ledger/hold-$phase" "$ledger/holding-$session-$phase"
fi
`
)

// holdingAgent holds before it has said what it has done.
const holdingAgent = agentBegins + agentHolds + agentReports

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
	w.write("holding.sh", holdingAgent)
	w.concurrency(8)
	return w.write("team.yaml", fivePhases)
}

// concurrency writes the worker file, with this many slots.
func (w *world) concurrency(slots int) {
	w.write("agents.yaml", fmt.Sprintf("version: 1\n%s\nagents:\n  holding: {kind: command, argv: [%s, %s], concurrency: %d}\n",
		w.mounts(),
		filepath.Join(w.dir, "holding.sh"), w.ledger(""), slots))
}

// executed counts the executions of each phase.
func (w *world) executed(sessionID string) map[string]int {
	counts := map[string]int{}
	for _, phase := range w.lines("executed-" + sessionID) {
		counts[phase]++
	}
	return counts
}

// lines reads a file of the ledger.
func (w *world) lines(name string) []string {
	w.t.Helper()
	data, err := os.ReadFile(w.ledger(name))
	require.NoError(w.t, err)
	return strings.Fields(string(data))
}

// held waits until a living agent holds in the phase and returns its process id.
func (w *world) held(sessionID, phase string) int {
	w.t.Helper()
	var pid int
	w.eventually("an agent holds in "+phase, func() bool {
		note := w.ledger("holding-" + sessionID + "-" + phase)
		if _, err := os.Stat(note); err != nil {
			return false
		}
		// In a room it knows itself by another process id than the host does. A child is
		// called like it until it starts its own program.
		all := processes()
		for id, process := range all {
			self, ok := proctree.Read(id)
			if ok && strings.HasSuffix(process, " "+note) && all[self.Parent] != process {
				pid = id
				return true
			}
		}
		return false
	})
	return pid
}

func (w *world) hold(phase string) { w.write("ledger/hold-"+phase, "") }

func (w *world) release(phase string) {
	w.t.Helper()
	require.NoError(w.t, os.Remove(w.ledger("hold-"+phase)))
}

func TestFivePhasesCostFewEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	teamFile := w.withHoldingAgent()
	w.startWorker()
	require.Equal(t, "plain\n", w.must("run", teamFile, "a very special requirement", "--session", "plain"))
	s := w.completes("plain")
	updates := s.ClosedAt.Sub(*s.StartedAt) / (10 * time.Second) // of the search attributes while phases work
	require.LessOrEqual(t, s.HistoryEvents, 52+6*int64(updates))
	require.Equal(t, int64(55), s.Usage.Tokens())
}

// TestKilledCommandsChangeNothing kills the commands that follow a session.
func TestKilledCommandsChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	teamFile := w.withHoldingAgent()
	w.startWorker()
	w.hold("design")
	run := w.start(filepath.Join(programs, "maestro"), "run", teamFile, "go on", "--session", "watched", "--watch")
	agent := w.held("watched", "design")
	watch := w.start(filepath.Join(programs, "maestro"), "watch", "watched")
	w.eventually("both follow", func() bool {
		return strings.Contains(run.output.String(), "design") && strings.Contains(watch.output.String(), "design")
	})
	run.kill()
	watch.kill()
	require.NoError(t, syscall.Kill(agent, 0), "the agent works on")
	w.release("design")
	s := w.completes("watched")
	require.Equal(t, 1, w.executed("watched")["design"])
	w.sound(s)
}

// TestStoppedWorkerHandsOver stops a worker in the middle of an attempt: another
// takes over at once, and no attempt is used.
func TestStoppedWorkerHandsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	teamFile := w.withHoldingAgent()
	worker := w.startWorker()
	w.hold("design")
	w.must("run", teamFile, "hand over", "--session", "drain")
	agent := w.held("drain", "design")
	worker.signal(syscall.SIGTERM)
	<-worker.done
	require.Zero(t, worker.cmd.ProcessState.ExitCode(), worker.output.String())
	require.Regexp(t, `msg="round handed over to another worker" [^\n]*session=drain [^\n]*phase=design`, worker.output.String())
	require.Contains(t, worker.output.String(), "worker has drained")
	require.Error(t, syscall.Kill(agent, 0), "the agent is gone before its worker")
	w.release("design")
	w.startWorker()
	s := w.completes("drain")
	require.Equal(t, 2, w.executed("drain")["design"])
	require.Equal(t, 1, s.Phases[1].Assignments[0].Attempts)
	require.Zero(t, s.Phases[1].Assignments[0].LostWorkers)
	require.Empty(t, w.agents())
	w.must("checkpoints", "verify", "--all")
}

func TestCancelledSessionLeavesNoProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	teamFile := w.withHoldingAgent()
	w.startWorker()
	w.hold("design")
	w.must("run", teamFile, "stop", "--session", "stopped")
	agent := w.held("stopped", "design")
	w.must("cancel", "stopped")
	s := w.ends("stopped")
	require.Equal(t, session.WasCancelled, s.Status)
	require.Error(t, syscall.Kill(agent, 0), "the agent is gone before the session is over")
	require.Equal(t, session.Completed, s.Phases[0].Status)
}
