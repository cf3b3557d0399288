package system

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
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
	st := w.open()
	wait := func() int { // the number of the wait that the attempt is in; zero: it is in none
		record, err := st.State.Record(t.Context(), state.Assignment{Key: session.Key{Namespace: w.namespace, Session: "s"}, AssignmentID: spec.AssignmentID{Phase: "build", Persona: "dev"}})
		if err != nil || len(record.Rounds) == 0 || record.Rounds[0].Started || record.Rounds[0].Outage == nil {
			return 0
		}
		return record.Rounds[0].Outage.Waits
	}
	last, lost := 0, 0
	for kills := 0; kills < 3; {
		w.eventually("the attempt waits again", func() bool { return wait() > last })
		worker.kill()
		if n := wait(); n > 0 {
			last, kills = n, kills+1
		} else { // the wait was over before the kill
			lost++
		}
		worker = w.startWorker()
	}
	require.NoError(t, os.Remove(w.ledger("down")))
	s := w.completes("s")
	a := s.Phases[0].Assignments[0]
	require.Equal(t, 1, a.Attempts)
	require.Equal(t, 1, a.Rounds)
	require.Equal(t, lost, a.LostWorkers)
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
	c, last := w.client(), int32(0)
	for range 6 {
		other := w.startWorker()
		w.eventually("another worker waits for the lock", func() bool {
			a := pendingActivity(t, c, "s")
			if a.GetState() != enumspb.PENDING_ACTIVITY_STATE_STARTED || a.GetAttempt() == last || !strings.Contains(a.GetLastWorkerIdentity(), "-1 ") {
				return false // of the stopped worker, in slot 0, or of the one that was killed before
			}
			last = a.GetAttempt()
			return true
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
