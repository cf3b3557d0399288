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

// hide takes memory where it is not looked for at first.
func hide(where string) error {
	switch where {
	case "tables":
		return holdTables(hogged)
	case "names":
		return makeNames(hogLimit / 1024)
	case "mounts":
		return mountOften(20_000)
	case "kept":
		return keepMounts()
	case "thread-mounts":
		return inThread(unix.CLONE_FS|unix.CLONE_NEWNS, func() error {
			if err := unix.Mount("none", ".", "tmpfs", 0, ""); err != nil {
				return err
			}
			dir, err := os.Getwd()
			if err != nil {
				return err
			}
			return os.WriteFile(dir+"/file", make([]byte, hogged), 0o600)
		})
	case "thread-files":
		return inThread(unix.CLONE_FILES, func() error {
			_, err := memfd(hogged)
			return err
		})
	}
	return endFirstThread()
}

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

// makeNames makes empty files.
func makeNames(n int) error {
	for i := range n {
		if err := unix.Mknod(strconv.Itoa(i), unix.S_IFREG|0o600, 0); err != nil {
			return err
		}
	}
	return nil
}

// mountOften mounts directories on themselves. Many mounts on one directory would take long.
func mountOften(n int) error {
	for i := range n {
		dir := strconv.Itoa(i % 500)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

// keepMounts has a namespace of mounts that no process is in.
func keepMounts() error {
	return inThread(unix.CLONE_FS|unix.CLONE_NEWNS, func() error {
		if _, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY, 0); err != nil {
			return err
		}
		return unix.Unshare(unix.CLONE_NEWNS)
	})
}

// inThread does something in a thread, not the first one, that shares less with the others. The thread stays.
func inThread(apart int, do func() error) error {
	runtime.LockOSThread()
	if _, _, err := os.Pipe(); err != nil { // the runtime has its own files by now, which all threads need
		return err
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(apart)
		if err == nil {
			err = do()
		}
		done <- err
		select {}
	}()
	return <-done
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

// TestWhatMeasuresNeverDelaysTheEnd kills a worker whose agent has as many mounts in as many namespaces as it can.
func TestWhatMeasuresNeverDelaysTheEnd(t *testing.T) {
	t.Parallel()
	inRooms(t)
	b := newBench(t)
	b.isolation = IsolationRequired
	mark := "9" + strconv.Itoa(os.Getpid()) + ".5"
	cmd, _ := b.worker(`unshare -Urm sh -c '
i=0; while [ $i -lt 400 ]; do mount --bind /tmp /tmp || exit; i=$((i+1)); done
i=0; while [ $i -lt 100 ]; do unshare -m sleep ` + mark + ` & i=$((i+1)); done; wait' 2> /dev/null`)
	eventually(t, "its processes start", func() bool { return len(atWork("sleep\x00"+mark)) >= 20 || cmd.ProcessState != nil })
	require.Less(t, len(atWork("sleep\x00"+mark)), 40, "namespaces are few")
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	began := time.Now()
	eventually(t, "its processes end", func() bool { return len(atWork("sleep\x00"+mark)) == 0 })
	require.Less(t, time.Since(began), 10*time.Second)
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
