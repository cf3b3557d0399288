package system

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/session"
)

// TestWorkersThatAreKilledWhileAProviderIsAwayCostNothing: the wait and the attempt continue
// with the next worker.
func TestWorkersThatAreKilledWhileAProviderIsAwayCostNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withProvider("threshold: 100", "coder")
	file := w.write("team.yaml", "version: 1\nname: t\npersonas:\n  dev: {role: Dev, agent: coder, instructions: Work.}\nphases:\n  - {name: build, personas: [dev]}\nretry: {attempts: 1, rounds: 1}\n")
	w.write("ledger/down", "")
	worker := w.startWorker()
	w.must("run", file, "work", "--session", "s")
	var shown string
	for n := 2; n <= 4; n++ {
		w.eventually("the agent has failed again", func() bool { return w.executions() >= n })
		shown = w.shows("s", "its attempt waits again", func(s session.Status) bool {
			progress := s.Phases[0].Assignments[0].Progress
			return strings.Contains(progress, "waiting until") && progress != shown
		}).Phases[0].Assignments[0].Progress
		worker.kill()
		worker = w.startWorker()
	}
	require.NoError(t, os.Remove(w.ledger("down")))
	s := w.completes("s")
	a := s.Phases[0].Assignments[0]
	require.Equal(t, 1, a.Attempts)
	require.Equal(t, 1, a.Rounds)
	require.Zero(t, a.LostWorkers)
}

// TestWorkersThatAreKilledWhileTheyWaitForAnotherAreNotLost: one worker is stopped at its
// work, and the one in its place is killed again and again while it waits for the lock.
func TestWorkersThatAreKilledWhileTheyWaitForAnotherAreNotLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withProvider("threshold: 100", "coder")
	w.write("ledger/hold", "")
	first := w.startWorker()
	w.run("coder", "s")
	w.eventually("the agent works", func() bool { return w.executions() == 1 })
	first.signal(syscall.SIGSTOP)
	for range 6 {
		other := w.startWorker()
		w.shows("s", "another worker waits for the lock", func(s session.Status) bool {
			return strings.Contains(s.Phases[0].Assignments[0].Progress, "another process still executes")
		})
		other.kill()
	}
	w.startWorker()
	require.NoError(t, os.Remove(w.ledger("hold")))
	first.signal(syscall.SIGCONT)
	s := w.completes("s")
	require.Zero(t, s.Phases[0].Assignments[0].LostWorkers)
	require.Equal(t, 1, w.executions())
}
