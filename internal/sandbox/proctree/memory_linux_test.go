package proctree

import (
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAProcessWithTheMemoryOfItsParentCountsNothing has a thread of this process stand for a child before its exec: both
// share all memory.
func TestAProcessWithTheMemoryOfItsParentCountsNothing(t *testing.T) {
	t.Parallel()
	threads, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	var procs []Process
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		require.NoError(t, err)
		parent := os.Getpid()
		if tid == parent {
			parent = os.Getppid()
		}
		procs = append(procs, Process{PID: tid, Parent: parent})
	}
	require.Greater(t, len(procs), 2)
	all, own := Memory(procs, 0), Memory(procs[:1], 0)
	require.Less(t, all, 2*own)
	require.Greater(t, Memory(procs, math.MaxInt64), 2*own, "the quick estimate")
}
