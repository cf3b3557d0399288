package procgroup

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// TestThreadsOfAnAttempt leave enough for the attempts beside it and for the worker.
func TestThreadsOfAnAttempt(t *testing.T) {
	t.Parallel()
	require.Equal(t, maxThreads, threadsOf(math.MaxInt32, 10))
	for _, free := range []int{1500, 3700, 32768} {
		for _, attempts := range []int{1, 4, 10} {
			most := threadsOf(free, attempts)
			require.LessOrEqual(t, attempts*int(room.HardThreads(most)), free-min(free/4, 512))
			require.GreaterOrEqual(t, 2*attempts*min(most+1, maxThreads), min(free, 2*maxThreads)/2)
		}
	}
	require.Equal(t, minThreads, threadsOf(100, 8))
}

// TestEveryLimitOfThreadsCounts finds the limits of cgroups of both versions, at each level.
func TestEveryLimitOfThreadsCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("cgroup", "9:name=systemd:/x\n8:pids:/a/b\n5:cpu,cpuacct:/\n0::/c\n")
	write("mountinfo", "30 1 0:20 / "+dir+"/v1/cpu rw - cgroup cgroup rw,cpu,cpuacct\n31 1 0:21 /a "+dir+
		"/v1/pids rw - cgroup cgroup rw,pids\n32 1 0:22 / "+dir+"/v2 rw - cgroup2 none rw\n")
	write("v1/pids/b/pids.max", "max\n")
	write("v1/pids/pids.max", "4000\n")
	write("v1/pids/pids.current", "300\n")
	write("v2/c/pids.max", "5000\n")
	write("v2/c/pids.current", "700\n")
	limits := threadLimits(dir, os.Getuid(), 100)
	require.Contains(t, limits, ThreadLimit{"pids.max of " + dir + "/v1/pids", 4000, 3800})
	require.Contains(t, limits, ThreadLimit{"pids.max of " + dir + "/v2/c", 5000, 4400})
	names := ""
	for _, l := range limits {
		names += l.Name + " "
	}
	require.Contains(t, names, "kernel.pid_max kernel.threads-max ")

	require.Equal(t, "b", least([]ThreadLimit{{"a", 4000, 3800}, {"b", 9000, 3000}}).Name)
	few := Threads{Each: 40, Least: ThreadLimit{"kernel.pid_max", 4000, 100}, attempts: 5}
	require.True(t, few.Few())
	require.Equal(t, "kernel.pid_max of 4000 leaves 100 for 5 attempts and the worker", few.String())
}
