//go:build system

// Package cluster_test runs the cluster of run.sh, which needs Debian's
// PostgreSQL, and has a team work on it while parts of it are killed.
package cluster_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/sandbox/proctree"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// limit bounds every wait in these tests. The first start may have to build
// Temporal's server.
const limit = 8 * time.Minute

// TestATeamWorksThroughKillsAndARestartOfTheCluster has the example's team work
// on a cluster of which a worker is killed first, and all of it stopped and
// started again then.
func TestATeamWorksThroughKillsAndARestartOfTheCluster(t *testing.T) {
	t.Parallel()
	dir := place(t)
	first := start(t, dir)
	first.up()
	require.Empty(t, findings(t, dir), "doctor has something to say of a fresh cluster")

	run := shell(t, dir, "maestro run ../../examples/shortener/team.yaml -f ../../examples/shortener/requirement.md --session "+
		"s1 --watch")
	run.says("implementation: started")
	workers := first.children("maestro-worker")
	require.Len(t, workers, 2)
	require.NoError(t, syscall.Kill(workers[0], syscall.SIGKILL))
	first.says("is started again")
	require.Eventually(t, func() bool {
		now := first.children("maestro-worker")
		return len(now) == 2 && !slices.Contains(now, workers[0])
	}, limit, 50*time.Millisecond, "the killed worker is not replaced")

	run.says("implementation: completed")
	all := first.children("")
	first.signal(syscall.SIGTERM)
	require.Equal(t, 128+int(syscall.SIGTERM), first.wait())
	gone(t, all)

	second := start(t, dir)
	second.up()
	require.Zero(t, run.wait(), "who watches has seen it through: %s", run.output)
	require.Empty(t, findings(t, dir))

	all = second.children("")
	require.GreaterOrEqual(t, len(all), 4)
	second.signal(syscall.SIGKILL)
	require.Equal(t, -1, second.wait())
	gone(t, all)
}

func TestACommandHasTheClusterForItsTime(t *testing.T) {
	t.Parallel()
	dir := place(t)
	c := start(t, dir, "--workers", "1", "--", "sh", "-c", `maestro agents && echo "at $TEMPORAL_ADDRESS" && exit 7`)
	c.up()
	all := c.children("")
	require.Equal(t, 7, c.wait(), "%s", c.output)
	require.Contains(t, c.output.String(), "POLLERS")
	require.Regexp(t, `at 127\.0\.0\.1:\d+`, c.output.String())
	gone(t, all)

	c = start(t, dir, "--workers", "1", "--", "sleep", "500")
	require.Eventually(t, func() bool { return len(c.children("sleep")) == 1 }, limit, 50*time.Millisecond)
	all = c.children("")
	c.signal(syscall.SIGKILL)
	require.Equal(t, -1, c.wait())
	gone(t, all)
}

func TestNothingGoesOnWithoutTemporal(t *testing.T) {
	t.Parallel()
	c := start(t, place(t), "--workers", "1")
	c.up()
	all := c.children("")
	servers := c.children("temporal-server")
	require.Len(t, servers, 1)
	require.NoError(t, syscall.Kill(servers[0], syscall.SIGKILL))
	require.Equal(t, 1, c.wait())
	require.Contains(t, c.output.String(), "temporal ended (status 137), and nothing goes on without it")
	require.Contains(t, c.output.String(), "log/temporal.log")
	require.Less(t, len(c.output.String()), 4000, "whole stacks are left to the log")
	gone(t, all)
}

func TestWhatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	dir := place(t)
	for _, c := range []struct {
		flags []string
		code  int
		says  string
	}{
		{[]string{"--workers", "none"}, 2, "--workers none is not a number from 1 to 99"},
		{[]string{"--port"}, 2, "--port needs a value"},
		{[]string{"--port", "80"}, 2, "--port 80 is not a number from 1024 on"},
		{[]string{"--agents", "nowhere.yaml"}, 2, "there is no worker file"},
		{[]string{"maestro"}, 2, "a command comes after --"},
		{[]string{"--dir", "run.sh/below"}, 1, "run.sh/below cannot be used: mkdir: "},
		{[]string{"--agents", "run.sh"}, 1, "worker 1 ended: maestro-worker: "}, // found out late, after all the rest has started
	} {
		p := start(t, dir, c.flags...)
		require.Equal(t, c.code, p.wait(), "%s: %s", c.flags, p.output)
		require.Contains(t, p.output.String(), c.says)
		require.Empty(t, inDirectory(dir), "%s left processes", c.flags)
	}
}

// place makes a directory that the database's own user may enter. It has ports, as if a run
// before had used them: no other test gets these while the cluster is on its way up.
func place(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "maestro-cluster-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	var ports strings.Builder
	for _, name := range []string{
		"FRONTEND_GRPC_PORT", "FRONTEND_HTTP_PORT", "FRONTEND_MEMBERSHIP_PORT", "HISTORY_GRPC_PORT", "HISTORY_MEMBERSHIP_PORT",
		"MATCHING_GRPC_PORT", "MATCHING_MEMBERSHIP_PORT", "WORKER_GRPC_PORT", "WORKER_MEMBERSHIP_PORT", "DB_PORT",
	} {
		fmt.Fprintf(&ports, "%s=%s\n", name, proctest.FreePort(t))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ports"), []byte(ports.String()), 0o600))
	return dir
}

// process is a program that a test has started.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	output *proctest.Output
	ended  chan struct{}
}

func start(t *testing.T, dir string, flags ...string) *process {
	t.Helper()
	return begin(t, exec.Command("./run.sh", append([]string{"--dir", dir, "--drain", "1s"}, flags...)...))
}

// shell runs a line in a shell that has read the cluster's environment.
func shell(t *testing.T, dir, line string) *process {
	t.Helper()
	return begin(t, exec.Command("bash", "-c", `. "$0/environment" && exec `+line, dir))
}

func begin(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, output: &proctest.Output{}, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.output, p.output
	require.NoError(t, cmd.Start())
	go func() { _ = cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() {
		p.signal(syscall.SIGTERM)
		p.wait()
		if t.Failed() {
			t.Logf("%s:\n%s", cmd, p.output)
		}
	})
	return p
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// wait waits for the end and returns the exit code, -1 for a killed process.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		_ = p.cmd.Process.Kill()
		require.Fail(p.t, "it does not end", "%s\n%s", p.cmd, p.output)
	}
	return p.cmd.ProcessState.ExitCode()
}

// says waits until the process has printed a text.
func (p *process) says(text string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		select {
		case <-p.ended:
			return true
		default:
			return strings.Contains(p.output.String(), text)
		}
	}, limit, 20*time.Millisecond)
	require.Contains(p.t, p.output.String(), text, "%s has ended", p.cmd)
}

func (p *process) up() {
	p.t.Helper()
	p.says("Maestro is running")
}

// children lists the processes that a process has started, and that are called
// like that; an empty name stands for all.
func (p *process) children(name string) (found []int) {
	for _, child := range proctree.Below(p.cmd.Process.Pid) {
		if child.Parent == p.cmd.Process.Pid && !child.Zombie && strings.HasPrefix(child.Name, name) {
			found = append(found, child.PID)
		}
	}
	return found
}

// gone waits until processes have ended, and with them PostgreSQL's own.
func gone(t *testing.T, pids []int) {
	t.Helper()
	require.NotEmpty(t, pids)
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(pids, func(pid int) bool {
			p, ok := proctree.Read(pid)
			return ok && !p.Zombie
		})
	}, limit, 50*time.Millisecond, "some of %v still run", pids)
}

// inDirectory lists the processes that name a directory in their arguments.
func inDirectory(dir string) (found []string) {
	for _, p := range proctree.All() {
		argv, _ := os.ReadFile(filepath.Join(p.Dir(), "cmdline"))
		if strings.Contains(string(argv), dir) {
			found = append(found, strings.ReplaceAll(string(argv), "\x00", " "))
		}
	}
	return found
}

// findings lists what doctor has to say besides that all is well.
func findings(t *testing.T, dir string) []string {
	t.Helper()
	doctor := shell(t, dir, "maestro doctor -o json")
	require.Zero(t, doctor.wait(), "%s", doctor.output)
	var doc struct {
		Findings []struct{ Check, Result, Message string }
	}
	require.NoError(t, json.Unmarshal([]byte(doctor.output.String()), &doc))
	require.NotEmpty(t, doc.Findings)
	var odd []string
	for _, f := range doc.Findings {
		asRoot := f.Check == "processes" && os.Getuid() == 0 // which it rightly warns of
		if f.Result != "ok" && !asRoot {
			odd = append(odd, f.Check+": "+f.Message)
		}
	}
	return odd
}

// TestTheBenchmarkOfAFleetLosesNothing runs it with the smallest figures.
func TestTheBenchmarkOfAFleetLosesNothing(t *testing.T) {
	t.Parallel()
	p := begin(t, exec.Command("make", "-C", "../..", "bench-fleet", "WAITING=10", "ROOMS=8", "FILES=50", "REST=1s"))
	require.Zero(t, p.wait(), "%s", p.output)
	out := p.output.String()
	require.Regexp(t, `(?m)^\| 10 \|.*\|$`, out, "sessions that wait")
	for _, hosts := range []string{"2", "4"} {
		// All rooms were at work at once, all sessions completed, none was lost; a host was killed in the last line.
		require.Regexp(t, `(?m)^\| `+hosts+` \| 8 \| 8 \|.*\| 8 \| 0 \| - \| - \|$`, out)
		require.Regexp(t, `(?m)^\| `+hosts+` \| 8 \| \d \|.*\| 8 \| 0 \| \d \| [\d.]+ \|$`, out)
	}
	require.Regexp(t, `(?m)^\| 2 \| [\d.]+ \| [\d.]+ \| [\d.]+ \|$`, out, "the second host's rooms over files")
}
