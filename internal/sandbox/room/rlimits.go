package room

import (
	"fmt"
	"os"

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
		most = Limit(which, most)
		if err := unix.Setrlimit(which, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("set limit %d: %w", which, err)
		}
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, Niceness); err != nil && err != unix.EACCES { // it yields more already
		return fmt.Errorf("set the priority: %w", err)
	}
	return keepPrivileges()
}

// Limit returns the largest value up to most that a limit of this process's children can have.
func Limit(which int, most uint64) uint64 {
	now := unix.Rlimit{Max: most}
	_ = unix.Getrlimit(which, &now) // it does not fail
	return min(most, now.Max, kernelLimit(which))
}

// asRoot reports whether the argv runs as root.
func (o *Orders) asRoot() bool { return os.Geteuid() == 0 && (o.User == nil || o.User.UID == 0) }

// endSignals are the signals without a fault that have an effect in a Go program.
var endSignals = []os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGTERM, unix.SIGTSTP, unix.SIGTTIN,
	unix.SIGTTOU,
}
