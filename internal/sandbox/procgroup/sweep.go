package procgroup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/sandbox/proctree"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// maxNamed bounds the processes that an error names.
const maxNamed = 5

// Sweep kills the processes that an earlier attempt in a directory has left behind. An attempt
// can do so if its agent killed both its shim and the worker. Processes are found by HOME
// or TMPDIR, by their working directory and by open files; a process that has changed all
// of these is not found. Where agents run as the worker's user, processes with a terminal
// are kept: a person's shell or editor may use the directory. This process and its
// ancestors are never killed. A *failures.Failure names the processes that cannot be
// killed.
func (l *Launcher) Sweep(dir session.WorkDir) error {
	return l.sweeper(dir).killAll(proctree.KillLimit)
}

func (l *Launcher) sweeper(dir session.WorkDir) sweeper {
	by := sweeper{dir: dir, base: filepath.Dir(dir.Tree), uid: os.Geteuid(), spared: ancestors(os.Getpid())}
	if u := l.User; u != nil {
		by.uid, by.agentsOnly = int(u.UID), int(u.UID) != os.Geteuid()
	}
	return by
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

// roomProcesses returns the processes in the rooms of an assignment, by process id. In a room
// the assignment's directories have other paths, which the processes can choose.
func (l *Launcher) roomProcesses(base string) map[int]bool {
	found := map[int]bool{}
	l.shims.Range(func(pid, at any) bool {
		if at == base || strings.HasPrefix(at.(string), base+"/") { //nolint:forcetypeassert // as [Launcher.noteRoom] has put it there
			for _, p := range proctree.Below(pid.(int)) { //nolint:forcetypeassert // the same
				found[p.PID] = true
			}
		}
		return true
	})
	return found
}

// noteRoom remembers the assignment's directory of a shim's room, until done is called.
func (l *Launcher) noteRoom(shim int, layout *room.Layout) (done func()) {
	if layout == nil {
		return func() {}
	}
	for _, m := range layout.Mounts {
		if m.Target == room.Home {
			l.shims.Store(shim, filepath.Dir(m.Source))
		}
	}
	return func() { l.shims.Delete(shim) }
}

// diskOf returns the device of a directory; zero if that is not known.
func diskOf(dir string) uint64 {
	var stat unix.Stat_t
	if unix.Stat(dir, &stat) != nil {
		return 0
	}
	return stat.Dev
}

// EndStoppedShims kills the shims of the worker's user, and of the user of its rooms, that are
// stopped and whose worker was killed: a stopped shim does not notice that, and keeps its
// assignment locked. [Launcher.Sweep] kills the processes of such a shim.
func (l *Launcher) EndStoppedShims() {
	for _, p := range proctree.All() {
		if !p.Stopped {
			continue
		}
		if uid, ok := proctree.User(p.PID); !ok || uid != os.Geteuid() && (l.User == nil || uid != int(l.User.UID)) {
			continue
		}
		line, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/cmdline")
		args := strings.Split(string(line), "\x00") // the last is empty
		if err != nil || len(args) != 4 || args[1] != room.ShimArgument {
			continue
		}
		if worker := args[2]; worker != strconv.Itoa(p.Parent) { // another process has adopted it
			_ = unix.Kill(p.PID, unix.SIGKILL) // the next call tries again
		}
	}
}

// sweeper finds the processes of one directory.
type sweeper struct {
	dir  session.WorkDir
	base string
	uid  int
	// agentsOnly: only agents have the user id.
	agentsOnly bool
	spared     map[int]bool
}

// killAll kills the processes of the directory. An error names those that are still alive after the time.
func (s sweeper) killAll(within time.Duration) error {
	if left := proctree.KillAll(s.find, within); len(left) > 0 {
		return unkillable(left)
	}
	return nil
}

// unkillable is the failure that names processes which cannot be killed.
func unkillable(left []proctree.Process) error {
	var named []string
	for _, p := range left[:min(len(left), maxNamed)] {
		name, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/comm") // chosen by the process
		named = append(named, fmt.Sprintf("%d (%s)", p.PID, safetext.Name(strings.TrimSuffix(string(name), "\n"))))
	}
	if len(left) > maxNamed {
		named = append(named, "…")
	}
	return failures.Failf(failures.ResourceError, "processes of an earlier attempt cannot be killed: %s; kill them, or "+
		"restart the host", strings.Join(named, ", "))
}

// find lists the processes of the directory. It clears their process groups, because other
// processes may be in them.
func (s sweeper) find() (found []proctree.Process) {
	for _, p := range proctree.All() {
		if p.Zombie || s.spared[p.PID] || !s.owns(p) {
			continue
		}
		if now, ok := proctree.Read(p.PID); ok && now.Started == p.Started { // its id was not reused meanwhile
			p.Group = 0
			found = append(found, p)
		}
	}
	return found
}

// owns reports whether a process belongs to the directory.
func (s sweeper) owns(p proctree.Process) bool {
	proc := p.Dir()
	if uid, ok := proctree.User(p.PID); !ok || uid != s.uid {
		return false
	}
	// Not PWD: a process that a person starts in the directory has it, too.
	if data, err := os.ReadFile(proc + "/environ"); err == nil {
		environ := strings.Split(string(data), "\x00")
		if slices.Contains(environ, "HOME="+s.dir.Home) || slices.Contains(environ, "TMPDIR="+s.dir.Tmp) {
			return true
		}
	}
	if p.Terminal && !s.agentsOnly {
		return false
	}
	links := append(proctree.OpenFiles(proc), proc+"/cwd", proc+"/root", proc+"/exe")
	return slices.ContainsFunc(links, func(link string) bool {
		target, err := os.Readlink(link)
		return err == nil && (target == s.base || strings.HasPrefix(target, s.base+"/"))
	})
}

// ancestors returns a process and its ancestors, by process id.
func ancestors(pid int) map[int]bool {
	line := map[int]bool{}
	for pid > 0 && !line[pid] {
		line[pid] = true
		p, ok := proctree.Read(pid)
		if !ok {
			break
		}
		pid = p.Parent
	}
	return line
}
