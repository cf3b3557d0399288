package system

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
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
