package room

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/proctree"
)

// TestOwnMemoryIsMeasuredBetweenSlowMeasurements: an agent can make those slow that include files.
func TestOwnMemoryIsMeasuredBetweenSlowMeasurements(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	now := time.Now()
	u := &resourceUse{orders: &Orders{MaxThreads: 1 << 30, MaxMemory: 1}, next: now.Add(time.Hour)}
	u.check(now)
	require.Positive(t, u.memory)
}

// TestACheckThatTakesTooLongIsAnExcess has a check that does not end: whoever supervises goes on, and gives up the attempt.
func TestACheckThatTakesTooLongIsAnExcess(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := &checks{begin: make(chan time.Time, 1), ended: make(chan excess, 1), endedFD: -1, next: now}
	require.Zero(t, c.advance(now))
	require.Len(t, c.begin, 1)
	require.Zero(t, c.advance(now.Add(checkLimit)))
	require.EqualValues(t, proctree.Immeasurable, c.advance(now.Add(checkLimit+1)).memory)

	c.ended <- excess{threads: 7}
	require.Equal(t, excess{threads: 7}, c.advance(now.Add(time.Second)), "one that ended in time")
}
