package room

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/sandbox/proctree"
)

// prepare makes this process a supervisor.
func prepare() error {
	raiseOwnScore()
	// No process may attach to the shim.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make itself undumpable: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	// Agents must not inherit open files of the worker or its parents.
	if err := unix.CloseRange(ordersFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		unix.CloseOnExec(ordersFD)
		unix.CloseOnExec(reportFD)
		unix.CloseOnExec(lockFD)
	}
	return nil
}

// attributes are those with which the argv is started.
func (s *supervisor) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, PidFD: &s.pidfd}
}

func dup(from, to int) error { return unix.Dup3(from, to, 0) }

// dropRights gives the calling thread the rights of the room's user.
func dropRights() error { return errors.Join(becomeAgent(), dropCapabilities()) }

// onOverlay reports whether a directory lies on an overlay.
func onOverlay(dir string) bool {
	var at unix.Statfs_t
	return unix.Statfs(dir, &at) == nil && at.Type == unix.OVERLAYFS_SUPER_MAGIC
}

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

// faultSignals are the signals that report faults: the Go runtime ends a process to which another
// process sends one of them.
var faultSignals = []os.Signal{unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSYS, unix.SIGSTKFLT}

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

func raiseScores(procs []proctree.Process) {
	for _, p := range procs {
		path := "/proc/" + strconv.Itoa(p.PID) + "/oom_score_adj"
		data, err := os.ReadFile(path)
		if score, bad := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && bad == nil && score < oomScore {
			_ = overwrite(path, strconv.Itoa(oomScore)) // it may have ended
		}
	}
}

// keepPrivileges keeps what this thread starts from getting more privileges, as from a setuid program.
func keepPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// kernelLimit is the largest value of a limit that the kernel accepts.
func kernelLimit(int) uint64 { return math.MaxUint64 }
