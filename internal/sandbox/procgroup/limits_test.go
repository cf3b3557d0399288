package procgroup

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// hostOf makes the files by which a process finds its cgroup, which has these processes and
// controllers.
func hostOf(t *testing.T, controllers string, pids ...int) (proc, dir string) {
	t.Helper()
	mount, proc := t.TempDir(), t.TempDir()
	dir = filepath.Join(mount, "unit.service")
	var all strings.Builder
	for _, pid := range pids {
		fmt.Fprintln(&all, pid)
	}
	for file, text := range map[string]string{
		filepath.Join(proc, "cgroup"): "4:memory:/old\n0::/slice/unit.service\n",
		filepath.Join(proc, "mountinfo"): "31 23 0:28 / /tmp rw - tmpfs tmpfs rw\n32 31 0:29 /slice " + mount +
			" rw,relatime - cgroup2 cgroup rw\n",
		filepath.Join(dir, "cgroup.controllers"):   controllers,
		filepath.Join(dir, "cgroup.procs"):         all.String(),
		filepath.Join(dir, agentGroups+"old/left"): "",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	return proc, dir
}

// TestCgroupsOfAgents has a worker prepare the cgroup that it is in, as the kernel shows it.
func TestCgroupsOfAgents(t *testing.T) {
	t.Parallel()
	proc, dir := hostOf(t, "cpuset cpu io memory pids\n", os.Getpid())
	_, err := findCgroups(proc, false)
	require.ErrorContains(t, err, "only a worker uses its cgroup")
	require.NoDirExists(t, filepath.Join(dir, workerGroup))
	c, err := findCgroups(proc, true)
	require.NoError(t, err)
	content := func(parts ...string) string {
		data, err := os.ReadFile(filepath.Join(append([]string{dir}, parts...)...))
		require.NoError(t, err)
		return string(data)
	}
	require.Equal(t, strconv.Itoa(os.Getpid()), content(workerGroup, "cgroup.procs"))
	require.Equal(t, "+cpu +memory +pids", content("cgroup.subtree_control"))

	l := &Launcher{MaxMemory: 64 << 20, Threads: Threads{Each: 80}}
	g, err := c.create(l)
	require.NoError(t, err)
	name := filepath.Base(g.dir)
	for file, want := range map[string]string{
		"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1",
		"pids.max": "100", "cpu.weight": "50",
	} {
		require.Equal(t, want, content(name, file), file)
	}
	for events, want := range map[string]struct {
		used     int64
		hostFull bool
	}{
		"":                     {},
		"oom 0\noom_kill 3\n":  {hostFull: true},
		"oom 1\noom_kill 2\n":  {used: 64 << 20},
		"oom 12\noom_kill 0\n": {},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(g.dir, "memory.events"), []byte("low 0\nhigh 0\nmax 9\n"+events), 0o600))
		used, hostFull := g.killed()
		require.Equal(t, want.used, used, events)
		require.Equal(t, want.hostFull, hostFull, events)
	}
	require.NoError(t, os.WriteFile(filepath.Join(g.dir, "memory.peak"), []byte("66000000\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(g.dir, "memory.events"), []byte("oom 1\noom_kill 1\n"), 0o600))
	used, _ := g.killed()
	require.EqualValues(t, 66_000_000, used)

	// The worker reloads its file, and finds itself where it has moved to.
	require.NoError(t, os.WriteFile(filepath.Join(proc, "cgroup"), []byte("0::/slice/unit.service/"+workerGroup+"\n"), 0o600))
	require.NoError(t, os.Remove(filepath.Join(dir, "cgroup.subtree_control")))
	starting := filepath.Join(dir, agentGroups+"starting")
	require.NoError(t, os.Mkdir(starting, 0o700))
	again, err := findCgroups(proc, true)
	require.NoError(t, err)
	require.Equal(t, c, again)
	require.NoFileExists(t, filepath.Join(dir, "cgroup.subtree_control"))
	require.DirExists(t, starting)
}

// TestCgroupsThatAreNotDelegated: then the shim measures, and people learn why.
func TestCgroupsThatAreNotDelegated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		controllers string
		pids        []int
		change      func(proc, dir string) error
		why         string
	}{
		"none": {"memory", nil, func(proc, _ string) error { return os.Remove(filepath.Join(proc, "cgroup")) }, "no such file"},
		"version 1": {
			"memory", nil, func(proc, _ string) error { return os.WriteFile(filepath.Join(proc, "mountinfo"), nil, 0o600) },
			"no cgroup of version 2 is mounted",
		},
		"controllers": {"cpu pids", []int{os.Getpid()}, nil, "has no controller of memory"},
		"shared":      {"memory", []int{os.Getpid(), os.Getppid()}, nil, fmt.Sprintf("has other processes, like %d", os.Getppid())},
		"read-only": {"memory", []int{os.Getpid()}, func(_, dir string) error {
			return os.WriteFile(filepath.Join(dir, workerGroup),
				nil, 0o600)
		}, "cgroup.procs: not a directory"},
		"refused": {
			"memory",
			[]int{os.Getpid()},
			func(_, dir string) error { return os.Mkdir(filepath.Join(dir, "cgroup.subtree_control"), 0o700) }, "enable the controllers",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proc, dir := hostOf(t, c.controllers, c.pids...)
			if c.change != nil {
				require.NoError(t, c.change(proc, dir))
			}
			_, err := findCgroups(proc, true)
			require.ErrorContains(t, err, c.why)
		})
	}
}

// mountedVariable names the directory of a mounted cgroup2 to a test.
const mountedVariable = "MAESTRO_TEST_CGROUP2"

// TestAgentsStartInCgroups of the kernel's, with whatever controllers this host has.
func TestAgentsStartInCgroups(t *testing.T) {
	t.Parallel()
	if mounted := os.Getenv(mountedVariable); mounted != "" {
		startsInCgroups(t, mounted)
		return
	}
	dir := t.TempDir()
	const script = `mount -t cgroup2 none "$` + mountedVariable + `" && mkdir "$` + mountedVariable +
		`/maestro-test-$$" 2>/dev/null || { echo not permitted; exit 0; }
"$0" -test.run '^TestAgentsStartInCgroups$' -test.v; status=$?; rmdir "$` + mountedVariable + `/maestro-test-$$"; exit $status`
	cmd := exec.Command("unshare", "-m", "sh", "-c", script, os.Args[0])
	cmd.Env = append(os.Environ(), mountedVariable+"="+dir)
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "not permitted") || strings.Contains(string(out), "unshare failed") {
		t.Skipf("this user may not make cgroups: %s", out)
	}
	require.NoError(t, err, string(out))
}

func startsInCgroups(t *testing.T, mounted string) {
	t.Helper()
	own, err := filepath.Glob(filepath.Join(mounted, "maestro-test-*"))
	require.NoError(t, err)
	require.NotEmpty(t, own)
	c := &Cgroups{dir: own[0]}
	l := &Launcher{
		Secrets: secrets.New(nil), MaxOutput: 1 << 20, Threads: Threads{Each: 100}, MaxFile: 1 << 20, MaxMemory: 64 << 20,
		Cgroups: c,
	}
	for name, layout := range map[string]*room.Layout{
		"without a room": nil,
		"in a room":      room.NewLayout(&room.Account{UID: 64100, GID: 64100}),
	} {
		e := l.Run(t.Context(), Process{
			Argv: []string{"/bin/sh", "-c", "cat /proc/self/cgroup; setsid sleep 1000 & exit 0"}, Dir: "/",
			Env: []string{"PATH=" + os.Getenv("PATH")}, Room: layout,
		})
		require.NoError(t, e.Err, name)
		require.Contains(t, string(e.Log()), "/"+filepath.Base(own[0])+"/"+agentGroups, name)
		left, err := filepath.Glob(filepath.Join(own[0], agentGroups+"*"))
		require.NoError(t, err)
		require.Empty(t, left, "a cgroup ends with its agent")
	}
	// What even the shim cannot kill, because it is no descendant, ends with the cgroup.
	g, err := c.create(l)
	require.NoError(t, err)
	stray := exec.Command("sleep", "1000")
	require.NoError(t, stray.Start())
	require.NoError(t, writeFile(g.dir, "cgroup.procs", strconv.Itoa(stray.Process.Pid)))
	g.remove()
	require.Error(t, stray.Wait())
	require.NoDirExists(t, g.dir)
}

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
