package proctree

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMountsBehindALongLine reads what a process has mounted after an overlay of many directories.
func TestMountsBehindALongLine(t *testing.T) {
	t.Parallel()
	proc := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(proc, "mountinfo"), []byte(`36 35 0:53 / /dev/shm rw,nosuid shared:1 - tmpfs tmpfs rw,size=1g
37 35 0:54 / /o rw - overlay none rw,lowerdir=`+strings.Repeat("/a - tmpfs /b 0:1 / /c ", 20_000)+`
38 35 0:300 / /a\040b rw - tmpfs tmpfs rw,size=1g
39 35 0:55 / /r rw - ramfs none rw
40 35 0:x / /x rw - tmpfs none rw
41 35 0:6 / /dev rw - devtmpfs devtmpfs rw,mode=755
42 35 0:7 / /t rw - tmpfsx none rw
43 35 0:4 mnt:[4026532512] /n rw - nsfs nsfs rw
44 35 0:4 net:[4026532513] /m rw - nsfs nsfs rw
`), 0o600))
	found, all := memoryMounts(proc)
	require.Equal(t, 9, all)
	require.Equal(t, []memoryMount{
		{at: "/dev/shm", device: unix.Mkdev(0, 53)}, {at: "/a b", device: unix.Mkdev(0, 300)}, {at: "/r", device: unix.Mkdev(0, 55), ramfs: true}, {at: "/dev", device: unix.Mkdev(0, 6)}, {namespace: "mnt:[4026532512]"},
	}, found)
}

func TestTooManyOpenFilesCountAsTooMuch(t *testing.T) {
	t.Parallel()
	o := objects{counted: map[[2]uint64]bool{}}
	o.addFiles(make([]string, maxFiles))
	require.Zero(t, o.sum)
	o.addFiles(make([]string, 1))
	require.EqualValues(t, Immeasurable, o.sum)
}

// TestFilesThatChangeWhileTheyAreMeasured has an open file that is by turns one in memory and a pipe, whose file system
// has no size: it must not be taken for a file system in memory without a limit.
func TestFilesThatChangeWhileTheyAreMeasured(t *testing.T) {
	t.Parallel()
	inMemory, err := os.Open("/dev/shm")
	require.NoError(t, err)
	defer inMemory.Close()
	pipe, other, err := os.Pipe()
	require.NoError(t, err)
	defer pipe.Close()
	defer other.Close()
	changing, err := unix.FcntlInt(pipe.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(changing)

	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for from := pipe; ; {
			select {
			case <-stop:
				return
			default:
			}
			_ = unix.Dup3(int(from.Fd()), changing, unix.O_CLOEXEC)
			if from == pipe {
				from = inMemory
			} else {
				from = pipe
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	link := []string{"/proc/self/fd/" + strconv.Itoa(changing)}
	for range 20_000 {
		o := objects{counted: map[[2]uint64]bool{}}
		o.addFiles(link)
		require.Less(t, o.sum, int64(Immeasurable))
	}
}

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
	all, own := estimate(procs, 0, 0), estimate(procs[:1], 0, 0)
	require.Less(t, all, 2*own)
	require.Greater(t, estimate(procs, 0, math.MaxInt64), 2*own, "the quick estimate")
}
