package room

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	require.True(t, u.exceeded(now))
	require.Positive(t, u.memory)
}
