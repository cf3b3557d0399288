package procgroup

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/sandbox/proctree"
)

// Harden protects this process, a worker, from the agents that it runs: its
// memory and environment, which hold secrets, cannot be read by other processes
// of the same user. It becomes the parent of the processes of an agent that killed
// its shim, so that it can kill them. Call it once, in a worker's main, after [room.Shim].
//
// A subreaper must not wait for children that it did not start, and
// must not start children in sessions of their own while agents run: after the
// death of a shim they would be killed as its orphans.
func Harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make the worker undumpable: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("make the worker a subreaper: %w", err)
	}
	return nil
}

// self opens as the executable of the current process, also after a deploy replaced the file.
const self = "/proc/self/exe"

// enter sets a process to start in the cgroup.
func (g *cgroup) enter(attr *syscall.SysProcAttr) {
	if g != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(g.open.Fd())
	}
}

// installedMemory is the memory of the host in bytes; the largest number if it is not known.
func installedMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return math.MaxInt64
	}
	return int64(info.Totalram) * int64(info.Unit) //nolint:gosec // the types differ by platform
}

// Removed returns how many bytes on disk the removed files of an assignment's directories
// still use, because a process has them open. hidden: a room may have more such files, which
// no process has open, or more than can be looked at.
func (l *Launcher) Removed(dir session.WorkDir) (bytes int64, hidden bool) {
	by, counted := l.sweeper(dir), map[[2]uint64]bool{}
	inRooms, disk, looked := l.roomProcesses(by.base), diskOf(by.base), 0
	for _, p := range proctree.All() {
		if p.Zombie || by.spared[p.PID] {
			continue
		}
		links := proctree.OpenFiles(p.Dir())
		if inRooms[p.PID] {
			if looked += len(links); looked > maxLooked {
				return bytes, true
			}
			hidden = hidden || mapsRemoved(p.Dir())
		}
		for _, link := range links {
			path, err := os.Readlink(link)
			hidden = hidden || inRooms[p.PID] && err == nil && strings.HasPrefix(path, "socket:") && passesFiles(link)
			if err != nil || !strings.HasSuffix(path, removedMark) || !inRooms[p.PID] && !strings.HasPrefix(path, by.base+"/") {
				continue
			}
			file, system, err := describe(link)
			if err != nil || file.Nlink > 0 || inRooms[p.PID] && file.Dev != disk && system.Type != unix.OVERLAYFS_SUPER_MAGIC {
				continue
			}
			if id := [2]uint64{file.Dev, file.Ino}; !counted[id] {
				counted[id] = true
				bytes += file.Blocks * 512 // whatever the file system's own blocks are
			}
		}
	}
	return bytes, hidden
}

// describe describes the file at a path and its file system, without opening it, which would act on a device or a pipe.
// Processes mount, close and open meanwhile: a path in /proc leads to another file with each call.
func describe(path string) (file unix.Stat_t, system unix.Statfs_t, err error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return file, system, err
	}
	defer unix.Close(fd) //nolint:errcheck // only read
	err = errors.Join(unix.Fstatfs(fd, &system), unix.Fstat(fd, &file))
	return file, system, err
}

// The bounds of one look at removed files: of the open files of the rooms' processes, and of the
// bytes that are read of one process's mappings.
const (
	maxLooked   = 1 << 18
	maxMappings = 4 << 20
)

// removedMark is the end of the kernel's name of a removed file.
const removedMark = " (deleted)"

// passesFiles reports whether a socket holds files that were sent and not received. No process
// need have them open.
func passesFiles(link string) bool {
	info, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(link)), "fdinfo", filepath.Base(link)))
	_, count, ok := strings.Cut(string(info), "\nscm_fds: ")
	return err == nil && ok && !strings.HasPrefix(count, "0")
}

// mapsRemoved reports whether a process has mapped a removed file of a disk, which it need not
// have open, or has too many mappings to look at.
func mapsRemoved(proc string) bool {
	f, err := os.Open(proc + "/maps")
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	maps, _ := io.ReadAll(io.LimitReader(f, maxMappings))
	return len(maps) == maxMappings || slices.ContainsFunc(strings.Split(string(maps), "\n"), isRemovedMapping)
}

// isRemovedMapping reports whether a line of /proc/PID/maps is about a removed file of a disk:
//
//	7f2c4d400000-7f2c4d600000 rw-s 00000000 fe:00 131 /tmp/file (deleted)
func isRemovedMapping(line string) bool {
	_, path, _ := strings.Cut(line, "/")
	inMemory := slices.ContainsFunc([]string{"memfd:", "dev/zero", "dev/shm/", "SYSV"},
		func(prefix string) bool { return strings.HasPrefix(path, prefix) })
	return strings.HasSuffix(line, removedMark) && !inMemory
}

// diskOf returns the device of a directory; zero if that is not known.
func diskOf(dir string) uint64 {
	var stat unix.Stat_t
	if unix.Stat(dir, &stat) != nil {
		return 0
	}
	return stat.Dev
}
