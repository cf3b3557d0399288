package room

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// MaxOpenFiles is how many files a process of an agent may have open.
	MaxOpenFiles = 1 << 16
	// Niceness is the niceness of agents and checks.
	Niceness = 5
	// oomScore makes the kernel kill agents and checks first when the host runs out of memory.
	oomScore = 500
	// threadSlack is by how many percent the kernel's limit of threads in a room exceeds
	// [Orders.MaxThreads]. The shim stops the argv above MaxThreads.
	threadSlack = 25
)

// HardThreads returns the kernel's limit for an argv that may have this many threads.
func HardThreads(most int) uint64 { return uint64(most + most*threadSlack/100) } //nolint:gosec // not negative

// ThreadsWithin returns the largest number of threads whose [HardThreads] is within a limit.
func ThreadsWithin(hard int) int { return hard * 100 / (100 + threadSlack) }

// limit sets the limits that the argv inherits from the calling thread.
func (o *Orders) limit() error {
	limits := map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: o.MaxFile, unix.RLIMIT_NOFILE: MaxOpenFiles}
	switch { // without a room, the kernel counts all processes of the user
	case o.Room != nil:
		limits[unix.RLIMIT_NPROC] = HardThreads(o.MaxThreads)
	case o.UserThreads > 0:
		limits[unix.RLIMIT_NPROC] = o.UserThreads
	}
	for which, most := range limits {
		var now unix.Rlimit
		if err := unix.Getrlimit(which, &now); err != nil {
			return fmt.Errorf("read limit %d: %w", which, err)
		}
		most = min(most, now.Max)
		if err := unix.Setrlimit(which, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("set limit %d: %w", which, err)
		}
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, Niceness); err != nil && err != unix.EACCES { // it yields more already
		return fmt.Errorf("set the priority: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// asRoot reports whether the argv runs as root.
func (o *Orders) asRoot() bool { return os.Geteuid() == 0 && (o.User == nil || o.User.UID == 0) }

// raiseOwnScore makes the kernel kill this process and its descendants before the worker when the
// host runs out of memory. Only a dumpable process may write that file.
func raiseOwnScore() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	RaiseOOMScore(os.Getpid())
}

// RaiseOOMScore does so for a process and what it starts. If this process has the host's CAP_SYS_RESOURCE, they cannot
// lower the score again.
func RaiseOOMScore(pid int) {
	_ = overwrite(fmt.Sprintf("/proc/%d/oom_score_adj", pid), strconv.Itoa(oomScore)) // a host may forbid it
}

var (
	// faultSignals are the signals that report faults: the Go runtime ends a process to which another
	// process sends one of them.
	faultSignals = []os.Signal{unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSYS, unix.SIGSTKFLT}
	// endSignals are the other signals that have an effect in a Go program.
	endSignals = []os.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGTERM, unix.SIGTSTP, unix.SIGTTIN,
		unix.SIGTTOU,
	}
)

// disregardSignals makes signals of other processes have no effect. They are not ignored, because
// an agent would inherit that. The kernel delivers to the first process of a room only signals
// that it handles. In other cases, this process catches signals that would end or stop it.
func disregardSignals() {
	resetHandlers(faultSignals)
	if os.Getpid() == 1 {
		resetHandlers(endSignals)
		return
	}
	signal.Notify(make(chan os.Signal, 1), endSignals...)
}

// resetHandlers removes the Go runtime's handlers of signals.
func resetHandlers(signals []os.Signal) {
	for _, s := range signals {
		// the kernel's struct sigaction, with the default handler
		var action [4]uint64
		number, _ := s.(unix.Signal)
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(number),
			uintptr(unsafe.Pointer(&action)), 0, unsafe.Sizeof(action[0]), 0, 0) //nolint:gosec // the kernel reads it
	}
}
