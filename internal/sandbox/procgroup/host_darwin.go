package procgroup

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// Harden does nothing: macOS shows the environment of a process to others of its user, and has no subreapers.
func Harden() error { return nil }

// self is the executable of the current process.
var self, _ = os.Executable()

// enter is not reached: there are no cgroups.
func (g *cgroup) enter(*syscall.SysProcAttr) {}

// installedMemory is the memory of the host in bytes.
func installedMemory() int64 {
	n, _ := unix.SysctlUint64("hw.memsize")
	return int64(n)
}

// Removed returns zero: macOS does not show which files a process has open.
func (l *Launcher) Removed(session.WorkDir) (bytes int64, hidden bool) { return 0, false }
