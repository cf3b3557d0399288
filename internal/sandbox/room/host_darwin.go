package room

import (
	"fmt"
	"math"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/sandbox/proctree"
)

// errNoRooms is why there are no rooms, and no floor.
var errNoRooms = fmt.Errorf("macOS has no namespaces: %w", unix.ENOSYS)

func (l *Layout) enter([]uint16) error { return errNoRooms }

// Namespaces returns the attributes of a shim that will make no room.
func (l *Layout) Namespaces() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// MapIDs returns why there are no rooms.
func (l *Layout) MapIDs(int) error { return errNoRooms }

func dropRights() error { return errNoRooms }

// Landlock returns zero: it is not available.
func Landlock() int { return 0 }

func (f *Floor) apply(bool) error { return nil }

func onOverlay(string) bool { return false }

// prepare keeps agents from inheriting open files of the worker or its parents. Other processes of the user may attach to a
// shim, and end it.
func prepare() error {
	open, err := os.ReadDir("/dev/fd")
	for _, f := range open {
		if fd, e := strconv.Atoi(f.Name()); e == nil && fd >= ordersFD {
			unix.CloseOnExec(fd)
		}
	}
	return err
}

// attributes are those with which the argv is started. Its end is noticed by the signal, or in the next check.
func (s *supervisor) attributes() *syscall.SysProcAttr {
	s.pidfd = -1
	return &syscall.SysProcAttr{Setsid: true}
}

func dup(from, to int) error { return unix.Dup2(from, to) }

// disregardSignals makes signals of other processes have no effect, as far as they can be caught.
func disregardSignals() { signal.Notify(make(chan os.Signal, 1), endSignals...) }

func keepPrivileges() error { return nil }

// kernelLimit is the largest value of a limit that the kernel accepts.
func kernelLimit(which int) uint64 {
	name := map[int]string{unix.RLIMIT_NOFILE: "kern.maxfilesperproc", unix.RLIMIT_NPROC: "kern.maxprocperuid"}[which]
	if most, err := unix.SysctlUint32(name); err == nil {
		return uint64(most)
	}
	return math.MaxUint64
}

// RaiseOOMScore does nothing: macOS has no such score.
func RaiseOOMScore(int) {}

func raiseScores([]proctree.Process) {}
