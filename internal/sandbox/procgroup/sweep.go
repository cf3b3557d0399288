package procgroup

import (
	"fmt"
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
// or TMPDIR, by their working directory and by open files, on macOS by the first two only; a process that has changed all
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
		args, _ := p.Launched()
		if len(args) != 3 || args[1] != room.ShimArgument {
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
		named = append(named, fmt.Sprintf("%d (%s)", p.PID, safetext.Name(p.Name)))
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
	if uid, ok := proctree.User(p.PID); !ok || uid != s.uid {
		return false
	}
	// Not PWD: a process that a person starts in the directory has it, too.
	_, environ := p.Launched()
	if slices.Contains(environ, "HOME="+s.dir.Home) || slices.Contains(environ, "TMPDIR="+s.dir.Tmp) {
		return true
	}
	if p.Terminal && !s.agentsOnly {
		return false
	}
	return slices.ContainsFunc(p.Links(), func(link string) bool {
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
