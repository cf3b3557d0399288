package system

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
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

// startFragile starts a worker that dies where the failpoint says.
func (w *world) startFragile(failpoint string) *process {
	w.t.Helper()
	return w.serves(w.startWith([]string{"MAESTRO_FAILPOINT=" + failpoint}, filepath.Join(programs, fragileWorker), "--drain", "1s"))
}

// TestWorkerKilledBetweenTwoLines kills a worker at the points where a crash
// could do most harm to what is on disk, and lets another one finish. The simulator has the others.
func TestWorkerKilledBetweenTwoLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ session, failpoint string }{
		{"call-booked", "call booked@1"},
		{"checkpoint-not-mirrored", "checkpoint stored, not mirrored@3"},
		{"half-an-assignments-blob", "/blobs/@6"},
		{"layers-filled", "layers: filled@2"},
		{"layers-published", "layers: published@1"},
	} {
		t.Run(c.session, func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(c.session, "layers") {
				permitsRooms(t)
			}
			w := newWorld(t)
			teamFile := w.withHoldingAgent()
			worker := w.startFragile(c.failpoint)
			w.start(filepath.Join(programs, "maestro"), "run", teamFile, "survive", "--session", c.session)
			w.dies(worker)
			require.Contains(t, worker.output.String(), "failpoint: ")
			w.startWorker()
			s := w.completes(c.session)
			w.sound(s)
		})
	}
}

const tookUp = "retried activities that a crash had interrupted"

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

// sound holds what a crash has left against what is promised: every execution
// is either the one that counts or was cut off with its worker (which may also have been lost after its end), no attempt was
// used up, no process works on, and all that is stored verifies.
func (w *world) sound(s session.Status) {
	w.t.Helper()
	executed := w.executed(s.Session)
	for _, p := range s.Phases {
		for _, a := range p.Assignments {
			require.Equal(w.t, 1, a.Attempts, "%s/%s used up no attempt", p.Name, a.Persona)
			require.Equal(w.t, 1, a.Rounds, "%s/%s", p.Name, a.Persona)
			require.GreaterOrEqual(w.t, executed[p.Name], 1, "%s/%s: executions", p.Name, a.Persona)
			require.LessOrEqual(w.t, executed[p.Name], 1+a.LostWorkers, "%s/%s: executions", p.Name, a.Persona)
		}
	}
	require.Empty(w.t, w.agents())
	w.must("checkpoints", "verify", "--all")
}

// processes are those of the host: their command lines, by process id.
func processes() map[int]string {
	found := map[int]string{}
	for _, p := range proctree.All() {
		if command, err := os.ReadFile(filepath.Join(p.Dir(), "cmdline")); err == nil && len(command) > 0 {
			found[p.PID] = strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return found
}

// agents lists the processes at work in the store's directories, with what watches them: their
// working directory lies there or, in a room, a directory that is mounted there.
func (w *world) agents() (found []string) {
	w.t.Helper()
	state, err := filepath.EvalSymlinks(w.state)
	require.NoError(w.t, err)
	for pid, command := range processes() {
		of := filepath.Join("/proc", strconv.Itoa(pid))
		dir, _ := os.Readlink(filepath.Join(of, "cwd"))
		mounted, _ := os.ReadFile(filepath.Join(of, "mountinfo"))
		if strings.HasPrefix(dir, state) ||
			strings.Contains(string(mounted), filepath.Join(filepath.Base(filepath.Dir(w.dir)), filepath.Base(w.dir), "state")+"/") {
			found = append(found, strconv.Itoa(pid)+" "+command)
		}
	}
	return found
}
