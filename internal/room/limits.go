package room

import (
	"fmt"
	"os"
	"os/signal"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/proctree"
)

const (
	// checkInterval is how often the shim checks what its argv uses.
	checkInterval = 250 * time.Millisecond
	// measureShare bounds the processor time for measuring memory: one part in so many.
	measureShare = 25
	// MaxOpenFiles is how many files a process of an agent may have open.
	MaxOpenFiles = 1 << 16
	// Niceness is how much agents and checks yield to the host's other processes.
	Niceness = 5
	// oomScore makes the kernel kill agents and checks first when the host has no memory.
	oomScore = "500"
	// threadSlack is how many more threads than [Orders.MaxThreads] the kernel lets a room
	// have, in percent: past MaxThreads the shim stops the argv.
	threadSlack = 25
)

// HardThreads is the bound of the kernel where an argv may have so many threads.
func HardThreads(most int) uint64 { return uint64(most + most*threadSlack/100) } //nolint:gosec // not negative

// limit sets the limits that the argv inherits from the calling thread.
func (o *Orders) limit() error {
	limits := map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: o.MaxFile, unix.RLIMIT_NOFILE: MaxOpenFiles}
	if o.Room != nil { // elsewhere the kernel counts all processes of the user together
		limits[unix.RLIMIT_NPROC] = HardThreads(o.MaxThreads)
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

// sacrifice has the kernel kill this process, and what it starts, before the worker when the
// host has no memory. Only a dumpable process may write that.
func sacrifice() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	_ = overwrite("/proc/self/oom_score_adj", oomScore) // a host may forbid it
}

var (
	// faults are the signals that report faults: the runtime ends a process that another one sends them.
	faults = []os.Signal{unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSYS, unix.SIGSTKFLT}
	// ends are the others that do something in a program of Go.
	ends = []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGTERM, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU}
)

// disregardSignals has signals of other processes do nothing to this one. They are not ignored: an agent
// would inherit that. To the first process of a room the kernel delivers only signals that it handles. Elsewhere
// this process catches what would end or stop it.
func disregardSignals() {
	resetHandlers(faults)
	if os.Getpid() == 1 {
		resetHandlers(ends)
		return
	}
	signal.Notify(make(chan os.Signal, 1), ends...)
}

// resetHandlers removes the runtime's handlers of signals.
func resetHandlers(signals []os.Signal) {
	for _, s := range signals {
		var action [4]uint64                                                                                                                             // the kernel's struct sigaction, with the default handler
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s.(unix.Signal)), uintptr(unsafe.Pointer(&action)), 0, unsafe.Sizeof(action[0]), 0, 0) //nolint:forcetypeassert,gosec // the kernel reads it
	}
}

// use is what the descendants of this process use.
type use struct {
	orders *Orders
	// others is how many threads the host had besides theirs when those were counted.
	others int
	gauge  *proctree.Gauge
	// next and nextOwn are when all memory, and what processes have for themselves, is measured again.
	next, nextOwn time.Time
	// threads and memory are the use that exceeds a limit; zero: it does not.
	threads int
	memory  int64
}

// exceeded measures, and reports whether a limit is exceeded.
func (u *use) exceeded(now time.Time) bool {
	// Counting one's own threads costs milliseconds, so it is done only when the host as a
	// whole is crowded.
	if host := proctree.ThreadsOfHost(); host-u.others > u.orders.MaxThreads {
		n := proctree.ThreadsBelow(os.Getpid())
		if n > u.orders.MaxThreads {
			u.threads = n
			return true
		}
		u.others = host - n
	}
	if u.orders.MaxMemory == 0 {
		return false
	}
	if u.gauge == nil { // most processes end before
		u.gauge = proctree.NewGauge(u.orders.Room != nil)
	}
	if now.Before(u.next) { // an agent can make the other measurement slow
		return u.measure(now, &u.nextOwn, u.gauge.Own)
	}
	return u.measure(now, &u.next, u.gauge.Memory)
}

// measure measures memory if it is time to, and reports whether the limit is exceeded. How long that takes says when it
// is time again.
func (u *use) measure(now time.Time, next *time.Time, memory func(most int64) int64) bool {
	if now.Before(*next) {
		return false
	}
	before := processorTime()
	if n := memory(u.orders.MaxMemory); n > u.orders.MaxMemory {
		u.memory = n
		return true
	}
	*next = now.Add(measureShare * (processorTime() - before))
	return false
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
