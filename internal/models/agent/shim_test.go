package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

const patience = 2 * time.Minute

// eventually polls a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, patience, 5*time.Millisecond, what)
}

// pid reads a process id that an agent has left; zero if it has not yet.
func (b *bench) pid(file string) int {
	data, err := os.ReadFile(b.path(file))
	if err != nil || !strings.HasSuffix(string(data), "\n") {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return pid
}

// ended reports whether a process is gone, or dead and not waited for yet.
func ended(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err != nil || strings.Contains(string(status), "\nState:\tZ")
}

// stopped reports whether no thread of a process runs on after a SIGSTOP.
func stopped(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	return err == nil && len(threads) > 0 && !slices.ContainsFunc(threads, func(thread string) bool {
		status, err := os.ReadFile(thread)
		return err == nil && !strings.Contains(string(status), "\nState:\tT")
	})
}

func dead(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// cancelled runs until the agent has left the file, and then cancels it.
func (b *bench) cancelled(s *Set, file string) (session.Outcome, error) {
	ctx, cancel := context.WithCancelCause(b.t.Context())
	defer cancel(nil)
	done := make(chan struct{})
	var out session.Outcome
	var err error
	go func() {
		defer close(done)
		out, err = s.Run(ctx, b.job())
	}()
	eventually(b.t, "the agent leaves "+file, func() bool { return b.pid(file) != 0 })
	cancel(errEnough)
	<-done
	return out, err
}

// timedOut runs a job until its timeout, which grows until the agent has left the file by then.
func (b *bench) timedOut(s *Set, job session.Job, file string) (session.Outcome, error) {
	b.t.Helper()
	for job.Timeout = textfmt.Duration(time.Second); ; job.Timeout *= 4 {
		out, err := s.Run(b.t.Context(), job)
		if info, missing := os.Stat(b.path(file)); missing == nil && info.Size() > 0 || job.Timeout.Std() > patience {
			return out, err
		}
	}
}

var errEnough = errors.New("enough")

// daemon is a shell command that leaves a process which has detached itself in
// every way there is, and left its id.
const daemon = `(setsid sh -c '(setsid sh -c "trap : TERM HUP INT; echo \$\$ > daemon; while :; do sleep 1; done" </dev/null >/dev/null 2>&1 &); exit 0' &); while [ ! -s daemon ]; do sleep 0.01; done; `

func TestNothingOutlivesTheAttempt(t *testing.T) {
	t.Parallel()
	run := func(b *bench, s *Set) error {
		_, err := s.Run(b.t.Context(), b.job())
		return err
	}
	timeout := func(b *bench, s *Set) error {
		_, err := b.timedOut(s, b.job(), "daemon")
		return err
	}
	cancel := func(b *bench, s *Set) error {
		_, err := b.cancelled(s, "pid")
		return err
	}
	for name, c := range map[string]struct {
		script string
		do     func(*bench, *Set) error
		want   string
		dead   []string
	}{
		"success": {daemon, run, "", []string{"daemon"}},
		"failure": {daemon + "exit 3", run, "exit status 3", []string{"daemon"}},
		"timeout": {daemon + "sleep 100", timeout, "timeout", []string{"daemon"}},
		"cancellation": {
			daemon + "trap '' TERM; echo $$ > pid; while :; do sleep 1; done", cancel, errEnough.Error(),
			[]string{"pid", "daemon"},
		},
		"frozen": {"echo $$ > pid; kill -STOP $$", cancel, errEnough.Error(), []string{"pid"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			err := c.do(b, b.shell(c.script))
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
			for _, file := range c.dead {
				require.True(t, dead(b.pid(file)), file)
			}
		})
	}
}

func TestCancelledBeforeItStarts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	_, err := b.shell("touch ran").Run(ctx, b.job())
	require.ErrorIs(t, err, errEnough)
	require.NoFileExists(t, b.path("ran"))
}

// worker starts a hardened worker of its own process.
func (b *bench) worker(script string) (*exec.Cmd, *strings.Builder) {
	b.t.Helper()
	var out strings.Builder
	cmd := exec.Command(os.Args[0], workerArgument, b.dir, script, b.isolation)
	if b.without != "" {
		cmd = proctest.Without(b.without, os.Args[0], cmd.Args[1:]...)
	}
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	require.NoError(b.t, cmd.Start())
	return cmd, &out
}

// freezes stops the shim of an agent, and kills its worker: the assignment stays locked. It returns
// false where a worker of another test on this host has ended the stopped shim, as workers do.
func (b *bench) freezes(worker *exec.Cmd, shim, agent int) bool {
	b.t.Helper()
	require.NoError(b.t, syscall.Kill(shim, syscall.SIGSTOP))
	eventually(b.t, "the shim stops", func() bool { return stopped(shim) || ended(shim) })
	require.NoError(b.t, worker.Process.Kill())
	require.Error(b.t, worker.Wait())
	lock, err := tryLock(filepath.Join(b.dir, "lock"))
	if errors.Is(err, syscall.EWOULDBLOCK) && !dead(agent) {
		return true
	}
	eventually(b.t, "its shim has ended before it", func() bool { return ended(shim) })
	if err == nil {
		lock.Unlock()
	}
	return false
}

// TestLockOutlivesAKilledWorker freezes the shim, so that the agent lives on
// after its worker, as it always does for a moment.
func TestLockOutlivesAKilledWorker(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cmd, _ := b.worker(daemon + "trap '' TERM HUP; ls /proc/$$/fd > fds; echo $PPID > shim; echo $$ > pid; while :; do sleep 1; " +
		"done")
	eventually(t, "the agent is at work", func() bool { return b.pid("pid") != 0 })
	fds, err := os.ReadFile(b.path("fds"))
	require.NoError(t, err)
	require.NotContains(t, strings.Fields(string(fds)), "5", "the agent does not inherit the lock")
	if !b.freezes(cmd, b.pid("shim"), b.pid("pid")) {
		return
	}
	require.NoError(t, syscall.Kill(b.pid("shim"), syscall.SIGCONT))
	eventually(t, "the lock is free", func() bool {
		_, err = tryLock(filepath.Join(b.dir, "lock"))
		return err == nil
	})
	require.True(t, dead(b.pid("pid")), "before the lock was free")
	require.True(t, dead(b.pid("daemon")), "before the lock was free")
}

func TestKilledShimIsNoticedAndNothingSurvives(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.without = proctest.Landlock // which keeps signals from the shim
	cmd, out := b.worker(daemon + "echo $$ > pid; kill -9 $PPID; while :; do sleep 1; done")
	require.NoError(t, cmd.Wait())
	require.True(t, dead(b.pid("daemon")), "the worker returned only when all was gone")
	require.True(t, dead(b.pid("pid")))
	var f failures.Failure
	require.NoError(t, json.Unmarshal([]byte(out.String()), &f))
	require.Equal(t, failures.Unknown, f.Category, "it may be the agent's doing")
	require.Contains(t, f.Message, "its supervising process was killed")
}

func TestShimThatIsFrozenIsGivenUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.shell("echo $PPID > shim; while [ ! -e frozen ]; do sleep 0.01; done; echo $$ > pid; while :; do sleep 1; done")
	s.launcher.ReportTimeout = time.Second
	go func() {
		for b.pid("shim") == 0 && t.Context().Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		_ = syscall.Kill(b.pid("shim"), syscall.SIGSTOP)
		_ = os.WriteFile(b.path("frozen"), nil, 0o600)
	}()
	_, err := b.cancelled(s, "pid")
	require.ErrorIs(t, err, errEnough)
	eventually(t, "the agent dies with its shim", func() bool {
		return ended(b.pid("pid"))
	})
}

// TestSignalsDoNotEndAShim sends a shim what a person, a terminal or a service manager may send.
func TestSignalsDoNotEndAShim(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.shell(`grep SigIgn /proc/$$/status > ignored; echo $PPID > shim; while [ ! -e go ]; do sleep 0.01; done`)
	done := make(chan error, 1)
	go func() {
		_, err := b.run(s)
		done <- err
	}()
	eventually(t, "the agent is at work", func() bool { return b.pid("shim") != 0 })
	text, err := os.ReadFile(b.path("ignored"))
	require.NoError(t, err)
	ignored, err := strconv.ParseUint(strings.Fields(string(text))[1], 16, 64)
	require.NoError(t, err)
	other := []syscall.Signal{
		syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE,
		syscall.SIGSEGV, syscall.SIGSYS, syscall.SIGSTKFLT, 32, 33, 34,
	}
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		if !slices.Contains(other, sig) {
			require.NoError(t, syscall.Kill(b.pid("shim"), sig), sig)
			require.Zero(t, ignored>>(sig-1)&1, "the agent ignores %s", sig)
		}
	}
	require.NoError(t, os.WriteFile(b.path("go"), nil, 0o600))
	require.NoError(t, <-done)
}

func TestForkBombIsStopped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	// The bomb is a small one, and the limit smaller.
	s := b.shell(`i=0; while [ $i -lt 400 ]; do sleep 1000 & i=$((i+1)); done; wait`)
	s.launcher.Threads.Each = 50
	_, err := b.run(s)
	f := failure(t, err)
	require.Equal(t, failures.Unknown, f.Category)
	require.Contains(t, f.Message, "at most 50 are allowed")
}

func TestForkingChainIsCaught(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	// Each process starts the next and ends at once: whoever looks is late.
	s := b.shell(`echo 'sh ./next & exit' > next; (sh ./next &); sleep 0.1`)
	_, err := b.run(s)
	require.NoError(t, err) // which means that no descendant was left
}

func TestAgentFindsNothingOfTheWorkers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	leaked, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer leaked.Close()
	// Without close-on-exec, as a worker's parent may have left it.
	fd, err := syscall.Dup(int(leaked.Fd()))
	require.NoError(t, err)
	defer syscall.Close(fd)
	s := b.shell(`
		ls /proc/self/fd > fds
		for f in 0 1 2; do grep flags /proc/$$/fdinfo/$f; done > flags
		cat /proc/$PPID/environ > environ 2> /dev/null
		stat -c %u /proc/$PPID/environ > owner
		grep NoNewPrivs /proc/self/status > privileges
		ulimit -c > core
		cut -d ' ' -f 5,6 /proc/$$/stat > group; echo $$ >> group
		trap > traps`)
	b.done(s, b.job())
	read := func(name string) []string {
		data, err := os.ReadFile(b.path(name))
		require.NoError(t, err)
		return strings.Fields(string(data))
	}
	require.Subset(t, []string{"0", "1", "2", "3"}, read("fds"), "3 is the directory that ls reads")
	for i, flags := range read("flags") {
		if i%2 == 1 {
			n, err := strconv.ParseInt(flags, 8, 64)
			require.NoError(t, err)
			require.Zero(t, n&syscall.O_NONBLOCK, "programs do not expect descriptors that do not block")
		}
	}
	environ := strings.TrimSuffix(strings.Join(read("environ"), " "), "GOMAXPROCS=2\x00")
	require.Empty(t, environ, "the shim has nothing of the worker's environment that could be read")
	require.Equal(t, []string{"0"}, read("owner"), "a process that is not dumpable belongs to root")
	require.Equal(t, []string{"NoNewPrivs:", "1"}, read("privileges"))
	require.Equal(t, []string{"0"}, read("core"))
	group := read("group")
	require.Equal(t, []string{group[2], group[2]}, group[:2], "the agent leads a group and a session")
	require.Empty(t, read("traps"))
}
