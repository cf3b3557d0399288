package agent

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// holdTables has page tables with nothing but the page of zeros.
func holdTables(size int) error {
	const page, table = 4096, 2 << 20
	data, err := unix.Mmap(-1, 0, size/page*table, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err == nil {
		err = unix.Madvise(data, unix.MADV_NOHUGEPAGE)
	}
	for i := 0; i < len(data) && err == nil; i += table {
		if data[i] != 0 {
			return fmt.Errorf("byte %d is not zero", i)
		}
	}
	return err
}

// endFirstThread takes memory and ends the first thread.
func endFirstThread() error {
	runtime.LockOSThread()
	if err := hold(unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, -1, hogged); err != nil {
		return err
	}
	go func() { time.Sleep(time.Hour) }()
	_, _, errno := unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	return errno
}

// TestTheEndOfAnAgentWithManyMounts kills a worker whose agent has as many mounts in as many namespaces as it can.
func TestTheEndOfAnAgentWithManyMounts(t *testing.T) {
	t.Parallel()
	inRooms(t)
	b := newBench(t)
	b.isolation = IsolationRequired
	mark := "9" + strconv.Itoa(os.Getpid()) + ".5"
	cmd, _ := b.worker(`unshare -Urm sh -c '
i=0; while [ $i -lt 400 ]; do mount --bind /tmp /tmp || exit; i=$((i+1)); done
i=0; while [ $i -lt 100 ]; do unshare -m sh -c "exec sleep ` + mark + `" & i=$((i+1)); done; wait' 2> /dev/null`)
	asleep := func() int { return len(atWork("sleep\x00" + mark)) }
	eventually(t, "its processes start", func() bool { return asleep() >= 20 || cmd.ProcessState != nil })
	require.LessOrEqual(t, asleep(), 32, "namespaces are few")
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	eventually(t, "its processes end", func() bool { return len(atWork(mark)) == 0 })
}

// TestAgentsLeaveThreadsForTheirWorker has one take all threads that it gets, below whichever limit is the tightest.
func TestAgentsLeaveThreadsForTheirWorker(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{IsolationRequired, IsolationNone} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			if isolation == IsolationRequired {
				inRooms(t)
			}
			b := newBench(t)
			script := "i=0; while [ $i -lt 2000 ]; do sleep 20 & i=$((i+1)); done; sleep 20"
			wrapped := `exec prlimit --nproc=$(($(ps -Lu $(id -u) | wc -l) + 900)) "$@"`
			if os.Geteuid() == 0 {
				if isolation == IsolationNone {
					t.Skip("no limit of the kernel applies to an agent that is root, except those that it can change")
				}
				wrapped = `exec unshare -pf --mount-proc sh -c 'echo 1500 > /proc/sys/kernel/pid_max && exec "$@"' - "$@"`
				if exec.Command("unshare", "-pf", "--mount-proc", "sh", "-c", "echo 1500 > /proc/sys/kernel/pid_max").Run() != nil {
					t.Skip("this kernel has one pid_max for all")
				}
			}
			self, err := os.Executable()
			require.NoError(t, err)
			out, err := exec.CommandContext(t.Context(), "sh", "-c", wrapped, "-", self, workerArgument, b.dir, script, isolation).CombinedOutput()
			require.NoError(t, err, string(out))
			require.Regexp(t, "Cannot fork|threads at once|temporarily unavailable", string(out), "and the worker lives to tell")
		})
	}
}
