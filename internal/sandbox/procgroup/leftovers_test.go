package procgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/sandbox/proctree"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// TestSweepEndsWhatAnEarlierAttemptHasLeft leaves processes as a hostile agent does that
// has killed its shim: in a session of their own, their environment dropped. Others, and
// a person's shell in the directory, live on.
func TestSweepEndsWhatAnEarlierAttemptHasLeft(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := session.WorkDir{Tree: filepath.Join(base, "tree"), Home: filepath.Join(base, "home"), Tmp: filepath.Join(base, "tmp")}
	require.NoError(t, os.MkdirAll(dir.Tree, 0o700))
	elsewhere := t.TempDir()
	leave := func(in string, terminal *os.File, env ...string) <-chan error {
		cmd := exec.Command("/bin/sh", "-c", "trap '' TERM HUP; while :; do sleep 0.1; done")
		cmd.Dir, cmd.Env, cmd.SysProcAttr = in, env, &syscall.SysProcAttr{Setsid: true}
		if terminal != nil {
			cmd.Stdin, cmd.SysProcAttr.Setctty = terminal, true
		}
		require.NoError(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return ended
	}
	left := []<-chan error{
		leave(dir.Tree, nil, "A=b"),
		leave(elsewhere, nil, "HOME="+dir.Home),
		leave(elsewhere, openTerminal(t), "TMPDIR="+dir.Tmp),
	}
	others := []<-chan error{
		leave(elsewhere, nil, "HOME="+elsewhere),
		leave(elsewhere, nil, "PWD="+dir.Tree),
		leave(dir.Tree, openTerminal(t), "PWD="+dir.Tree),
	}
	require.NoError(t, (&Launcher{}).Sweep(dir))
	for _, ended := range left {
		select {
		case <-ended:
		case <-time.After(time.Minute):
			require.Fail(t, "a process of the earlier attempt lives on")
		}
	}
	for i, ended := range others {
		select {
		case <-ended:
			require.Fail(t, "another process was killed", i)
		default:
		}
	}
}

// TestSweepNamesWhatItCannotKill has a process that its tracer holds even when it is
// killed, with a name that would be seen as another.
func TestSweepNamesWhatItCannotKill(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread() // only the thread that has started a process traces it
	defer runtime.UnlockOSThread()
	base := t.TempDir()
	program := filepath.Join(base, "a\x1b[2J\u202eb")
	require.NoError(t, os.Symlink("/bin/sleep", program))
	held := exec.Command(program, "600")
	held.Dir, held.Env, held.SysProcAttr = base, []string{}, &syscall.SysProcAttr{Ptrace: true}
	require.NoError(t, held.Start())
	t.Cleanup(func() { _ = held.Process.Kill() })
	var status syscall.WaitStatus
	_, err := syscall.Wait4(held.Process.Pid, &status, 0, nil)
	require.NoError(t, err)
	require.NoError(t, syscall.PtraceSetOptions(held.Process.Pid, unix.PTRACE_O_TRACEEXIT))
	require.NoError(t, syscall.PtraceCont(held.Process.Pid, 0))

	by := sweeper{base: base, uid: os.Geteuid()}
	err = by.killAll(200 * time.Millisecond)
	var failure *failures.Failure
	require.ErrorAs(t, err, &failure)
	require.Equal(t, failures.ResourceError, failure.Category)
	require.Equal(t, fmt.Sprintf("processes of an earlier attempt cannot be killed: %d (a\\x1b[2J\\u202eb); kill them, or "+
		"restart the host", held.Process.Pid), failure.Message)
	_, err = syscall.Wait4(held.Process.Pid, &status, 0, nil) // it is about to end, and is held
	require.NoError(t, err)
	require.NoError(t, syscall.PtraceCont(held.Process.Pid, 0))
	_, err = syscall.Wait4(held.Process.Pid, &status, 0, nil)
	require.NoError(t, err)
	require.NoError(t, by.killAll(time.Minute))
}

// TestStoppedShimsOfLostWorkersAreEnded stops what looks like a shim: one whose parent is
// another process than its worker has lost it.
func TestStoppedShimsOfLostWorkersAreEnded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, room.ShimArgument), []byte("kill -STOP $$"), 0o600))
	stop := func(worker int) *exec.Cmd {
		shim := &exec.Cmd{
			Path: "/bin/sh", Args: []string{"sh", room.ShimArgument, strconv.Itoa(worker)}, Dir: dir,
			SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		}
		require.NoError(t, shim.Start())
		t.Cleanup(func() { _ = shim.Process.Kill() })
		require.Eventually(t, func() bool {
			p, ok := proctree.Read(shim.Process.Pid)
			return ok && p.Stopped
		}, time.Minute, time.Millisecond)
		return shim
	}
	kept, lost := stop(os.Getpid()), stop(os.Getpid()+1)
	(&Launcher{}).EndStoppedShims()
	require.Error(t, lost.Wait())
	require.NoError(t, kept.Process.Signal(syscall.SIGCONT))
	require.NoError(t, kept.Wait(), "it was not killed")
}

// openTerminal opens a new terminal.
func openTerminal(t *testing.T) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = master.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = terminal.Close() })
	return terminal
}

// leased is a lock that other hosts respect while its lease lasts.
type leased struct {
	*os.File
	lease session.Lease
}

func (l *leased) Unlock()               {}
func (l *leased) Lease() *session.Lease { return &l.lease }

// TestAProcessEndsWithItsLease unless the lease is extended: then another host may do its work. The shim ends it without the
// worker, which may be stopped.
func TestAProcessEndsWithItsLease(t *testing.T) {
	t.Parallel()
	l := &Launcher{Secrets: secrets.New(nil), MaxOutput: 1 << 20, Threads: Threads{Each: 1000}, MaxFile: 1 << 30}
	run := func(extend bool) Result {
		f, err := os.Create(filepath.Join(t.TempDir(), "lock"))
		require.NoError(t, err)
		defer f.Close()
		lock := &leased{File: f}
		lock.lease.Extend(time.Now().Add(2 * time.Second))
		if extend {
			ticker := time.NewTicker(time.Second)
			defer ticker.Stop()
			go func() {
				for range ticker.C {
					lock.lease.Extend(time.Now().Add(4 * time.Second))
				}
			}()
		}
		return l.Run(t.Context(), Process{Argv: []string{"/bin/sh", "-c", "sleep 4; echo done"}, Dir: "/", Lock: lock})
	}
	ended := make(chan Result)
	go func() { ended <- run(true) }()
	lapsed := run(false)
	require.ErrorContains(t, lapsed.Err, "another host may do this work")
	require.True(t, lapsed.LeaseEnded)
	require.False(t, lapsed.Started, "it is not the agent's fault")
	extended := <-ended
	require.NoError(t, extended.Err)
	require.True(t, extended.EndedItself())
	require.Zero(t, extended.Exit)
}
