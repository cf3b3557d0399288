package agent

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/failures"
)

// hogArgument makes the test binary an agent that takes what the next argument names.
const hogArgument = "__test-hog"

const (
	// hogged is how much memory a hog takes, and hogLimit how much it may.
	hogged   = 240 << 20
	hogLimit = 120 << 20
)

// hog takes memory and then waits to be stopped.
func hog(what string) (err error) {
	switch what {
	case "own": // in several processes
		err = hogs("part", 4, nil)
	case "part":
		err = hold(unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, -1, hogged/4)
	case "shared": // less than the limit, however many processes map it
		file, err := memfd(hogged / 4)
		if err == nil {
			err = hogs("mapping", 4, file)
		}
		time.Sleep(3 * time.Second) // for some measurements
		return err
	case "mapping":
		err = hold(unix.MAP_SHARED, 3, hogged/4)
	case "signals":
		return signalFirst()
	case "tables":
		err = holdTables(hogged)
	case "headless":
		return endFirstThread()
	case "meddle":
		return meddle()
	}
	if err == nil {
		fmt.Println("holding")
		time.Sleep(time.Hour)
	}
	return err
}

// hogs starts several hogs and waits until each holds what it takes.
func hogs(what string, n int, file *os.File) error {
	for range n {
		cmd := exec.Command("/proc/self/exe", hogArgument, what)
		cmd.ExtraFiles = []*os.File{file}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			_, err = out.Read(make([]byte, 1))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hold maps and writes memory.
func hold(flags, fd, size int) error {
	data, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
	for i := 0; i < len(data); i += 4096 {
		data[i] = 1
	}
	return err
}

// memfd makes a file in memory.
func memfd(size int) (*os.File, error) {
	fd, err := unix.MemfdCreate("hog", 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "hog")
	for range size >> 20 {
		if _, err := file.Write(make([]byte, 1<<20)); err != nil {
			return nil, err
		}
	}
	return file, nil
}

// signalFirst sends every signal to the first process of the room, and to each of its threads, as a fault would be reported.
func signalFirst() error {
	threads, err := os.ReadDir("/proc/1/task")
	if err != nil {
		return err
	}
	for s := range int32(64) {
		info := [32]int32{s + 1, 0, -1} // SI_QUEUE
		_, _, errno := unix.Syscall(unix.SYS_RT_SIGQUEUEINFO, 1, uintptr(s+1), uintptr(unsafe.Pointer(&info)))
		if errno != 0 {
			return errno
		}
		for _, t := range threads {
			id, _ := strconv.Atoi(t.Name())
			// it may belong to another user
			_, _, _ = unix.Syscall6(unix.SYS_RT_TGSIGQUEUEINFO, 1, uintptr(id), uintptr(s+1), uintptr(unsafe.Pointer(&info)), 0, 0)
		}
	}
	time.Sleep(100 * time.Millisecond)
	fmt.Println("alive")
	return nil
}

// meddle changes the limits and the scheduling of the first process, of each of its threads, and of its parent.
func meddle() error {
	refused := func(what string, err error) error {
		if !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("%s was not refused: %v", what, err) //nolint:errorlint // it may be nil
		}
		return nil
	}
	threads, err := os.ReadDir("/proc/1/task")
	if err != nil {
		return err
	}
	for _, id := range append([]int{os.Getppid()}, ids(threads)...) {
		none := unix.Rlimit{}
		err = errors.Join(err, refused("limit files", unix.Prlimit(id, unix.RLIMIT_NOFILE, &none, nil)),
			refused("limit time", unix.Prlimit(id, unix.RLIMIT_CPU, &none, nil)))
	}
	_, _, parameters := unix.Syscall(unix.SYS_SCHED_SETPARAM, 1, uintptr(unsafe.Pointer(new(int32))), 0)
	_, _, policy := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, 1, 5, uintptr(unsafe.Pointer(new(int32))))
	return errors.Join(err, refused("schedule", policy), refused("schedule", parameters),
		refused("schedule", unix.SchedSetAttr(1, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: 5}, 0)),
		refused("pin", unix.SchedSetaffinity(1, &unix.CPUSet{1})),
		refused("yield", unix.Setpriority(unix.PRIO_PROCESS, 1, 19)),
		refused("yield as a group", unix.Setpriority(unix.PRIO_PGRP, 1, 19)),
		refused("yield as a user", unix.Setpriority(unix.PRIO_USER, 0, 19)),
		// Programs bound themselves.
		unix.Prlimit(0, unix.RLIMIT_CORE, &unix.Rlimit{}, nil), unix.Prlimit(os.Getpid(), unix.RLIMIT_NOFILE, nil, &unix.Rlimit{}),
		unix.Setpriority(unix.PRIO_PROCESS, 0, 19), unix.SchedSetaffinity(os.Getpid(), &unix.CPUSet{1}))
}

// ids are the threads of a directory of /proc.
func ids(threads []os.DirEntry) (ids []int) {
	for _, t := range threads {
		id, _ := strconv.Atoi(t.Name())
		ids = append(ids, id)
	}
	return ids
}

// hogBench is a bench in a room or without one, with the script that runs a hog.
func hogBench(t *testing.T, isolation string) (b *bench, set func(script string) *Set) {
	t.Helper()
	if isolation == IsolationRequired {
		inRooms(t)
	}
	self := executable(t)
	b = newBench(t)
	return b, func(script string) *Set {
		return b.set(Config{
			Isolation: isolation, Mounts: []Mount{{Path: filepath.Dir(self)}}, Limits: Limits{Memory: hogLimit},
			Agents: map[string]Definition{"x": {
				Kind: KindCommand,
				Argv: []string{"/bin/sh", "-c", strings.ReplaceAll(script, "HOG", self+" "+hogArgument)},
			}},
		})
	}
}

// TestAnAgentThatTakesTooMuchMemoryIsStopped in whichever way it takes it.
func TestAnAgentThatTakesTooMuchMemoryIsStopped(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{IsolationRequired, IsolationNone} {
		for name, script := range map[string]string{
			"own pages":              "HOG own",
			"many processes":         "for i in 1 2 3 4; do HOG part & done; wait",
			"page tables":            "HOG tables",
			"no first thread":        "HOG headless",
			"while it is terminated": "trap 'HOG own' TERM; kill -TERM $$; sleep 1000",
		} {
			t.Run(isolation+" "+name, func(t *testing.T) {
				t.Parallel()
				b, set := hogBench(t, isolation)
				out, err := set(script).Run(t.Context(), b.job())
				f := failure(t, err)
				require.Equal(t, failures.InvalidOutput, f.Category, string(out.Log))
				require.Contains(t, f.Message, "of memory; at most 120.0 MiB are allowed (limits.memory)")
			})
		}
	}
}

// TestSharedPagesCountOnce has processes of an agent map the same memory.
func TestSharedPagesCountOnce(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{IsolationRequired, IsolationNone} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			b, set := hogBench(t, isolation)
			s := set("HOG shared")
			s.launcher.MaxMemory = hogged // the race detector takes some, too
			b.done(s, b.job())
		})
	}
}

// TestTheKernelBoundsTheProcessesOfEachRoom: those of other rooms, with the same user, do not
// count.
func TestTheKernelBoundsTheProcessesOfEachRoom(t *testing.T) {
	t.Parallel()
	errs := make(chan error, 2)
	for range 2 {
		b, set := hogBench(t, IsolationRequired)
		s := set(`i=0; while [ $i -lt 30 ]; do sleep 2 & i=$((i+1)); done; wait
grep -q "Max processes *50 " /proc/self/limits && [ "$(ulimit -Hn)" -le 65536 ] && [ "$(nice)" -ge 5 ] && [ "$(cat /proc/self/oom_score_adj)" = 500 ] &&
exec sh -c '(echo 0 > /proc/self/oom_score_adj) 2> /dev/null; sleep 2; [ "$(cat /proc/$$/oom_score_adj)" = 500 ]' `)
		s.launcher.Threads.Each = 40
		go func() {
			out, err := b.run(s)
			if err != nil {
				err = errors.Join(err, errors.New(string(out.Log)))
			}
			errs <- err
		}()
	}
	require.NoError(t, errors.Join(<-errs, <-errs))
}

// TestAgentsCannotEndTheirRoom by signals that look like faults of the shim.
func TestAgentsCannotEndTheirRoom(t *testing.T) {
	t.Parallel()
	b, set := hogBench(t, IsolationRequired)
	require.Contains(t, string(b.done(set("HOG signals"), b.job()).Log), "alive")
}

// TestAgentsCannotDisableTheirShim has agents take the files and the processor time of what measures them.
func TestAgentsCannotDisableTheirShim(t *testing.T) {
	t.Parallel()
	b, set := hogBench(t, IsolationRequired)
	b.done(set("HOG meddle && echo refused"), b.job())
}

// TestAgentsCannotLimitTheirWorker has an agent without a room have the kernel kill its worker for the time that it has used.
func TestAgentsCannotLimitTheirWorker(t *testing.T) {
	t.Parallel()
	b, set := hogBench(t, IsolationNone)
	out, err := set("prlimit --pid "+strconv.Itoa(os.Getpid())+
		" --core=0:0; prlimit --pid $PPID --nofile=0:0; echo ended").Run(t.Context(), b.job())
	require.NoError(t, err, string(out.Log))
	if strings.Contains(string(out.Log), "not found") {
		t.Skip("this host has no prlimit")
	}
	require.Equal(t, 2, strings.Count(string(out.Log), "Operation not permitted"), string(out.Log))
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
