package procgroup

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

const (
	// workerGroup is the cgroup that a worker moves itself to: a cgroup that has processes cannot
	// enable controllers for the cgroups below it.
	workerGroup = "maestro-worker"
	// agentGroups is the prefix of the names of agents' cgroups.
	agentGroups = "maestro-agent-"
	// agentWeight is the share of the processors of an agent's cgroup; others have 100.
	agentWeight = "50"
	// removeLimit is how long the removal of a cgroup waits for the end of its processes, and removePause the time
	// between two tries.
	removeLimit, removePause = 2 * time.Second, 10 * time.Millisecond
)

// Cgroups makes a cgroup for each process of an agent or a check, below a worker's own.
type Cgroups struct {
	dir         string
	controllers []string
}

// FindCgroups returns the cgroups below this process's own cgroup. That must be of version 2,
// have the controller of memory, be delegated to this process's user, and contain no other
// process. An error says what is missing. It moves a worker into a cgroup below its own; for a
// process that is no worker it changes nothing and returns an error.
func FindCgroups(worker bool) (*Cgroups, error) { return findCgroups("/proc/self", worker) }

// findCgroups reads a process's directory in /proc.
func findCgroups(proc string, worker bool) (*Cgroups, error) {
	dir, err := ownCgroup(proc, "")
	if err != nil {
		return nil, err
	}
	moved := filepath.Base(dir) == workerGroup // by an earlier call
	if moved {
		dir = filepath.Dir(dir)
	}
	controllers, err := fieldsOf(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil, fmt.Errorf("read the cgroup: %w", err)
	}
	if !slices.Contains(controllers, "memory") {
		return nil, fmt.Errorf("the cgroup %s has no controller of memory", dir)
	}
	if !worker {
		return nil, fmt.Errorf("only a worker uses its cgroup; this one is %s", dir)
	}
	controllers = slices.DeleteFunc(controllers,
		func(name string) bool { return !slices.Contains([]string{"memory", "pids", "cpu"}, name) })
	c := &Cgroups{dir: dir, controllers: controllers}
	if moved { // some of the cgroups are in use
		return c, nil
	}
	if err := c.prepare(); err != nil {
		return nil, err
	}
	left, _ := filepath.Glob(filepath.Join(dir, agentGroups+"*"))
	for _, old := range left {
		_ = os.Remove(old) // fails for one that has processes
	}
	return c, nil
}

// ownCgroup returns the directory of a process's cgroup of version 2, or of that of version 1 with a controller.
func ownCgroup(proc, controller string) (string, error) {
	groups, err := os.ReadFile(filepath.Join(proc, "cgroup"))
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile(filepath.Join(proc, "mountinfo"))
	if err != nil {
		return "", err
	}
	kind, own := "cgroup2", ""
	if controller != "" {
		kind = "cgroup"
	}
	has := func(list string) bool { return slices.Contains(strings.Split(list, ","), controller) }
	for line := range strings.Lines(string(groups)) { // 8:pids:/a, and 0::/b
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 && has(f[1]) {
			own = f[2]
		}
	}
	for line := range strings.Lines(string(mounts)) {
		mount, fs, _ := strings.Cut(strings.TrimSpace(line), " - ")
		f, of := strings.Fields(mount), strings.Fields(fs) // the kind, the source and the options
		if len(f) < 5 || len(of) < 3 || of[0] != kind || own == "" || controller != "" && !has(of[2]) {
			continue
		}
		if below, err := filepath.Rel(f[3], own); err == nil && below != ".." && !strings.HasPrefix(below, "../") {
			return filepath.Join(f[4], below), nil
		}
	}
	return "", errors.New("no cgroup of version 2 is mounted")
}

// cgroupsOf are the directories of a process's cgroup, as of [ownCgroup], and of those above it.
func cgroupsOf(proc, controller string) (dirs []string) {
	dir, err := ownCgroup(proc, controller)
	if err != nil {
		return nil
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
	}
	return dirs
}

// prepare moves the worker to a cgroup of its own and enables the controllers.
func (c *Cgroups) prepare() (err error) {
	pids, err := fieldsOf(filepath.Join(c.dir, "cgroup.procs"))
	if err != nil {
		return fmt.Errorf("read the cgroup's processes: %w", err)
	}
	own := strconv.Itoa(os.Getpid())
	for _, pid := range pids {
		if n, err := strconv.Atoi(pid); pid != own && (err != nil || !ancestors(n)[os.Getpid()]) {
			return fmt.Errorf("the cgroup %s has other processes, like %s", c.dir, pid)
		}
	}
	worker := filepath.Join(c.dir, workerGroup)
	if err := os.Mkdir(worker, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("the cgroup is not delegated to this user: %w", err)
	}
	moved := pids[:0:0]
	defer func() {
		if err == nil {
			return
		}
		for _, pid := range moved {
			_ = writeFile(c.dir, "cgroup.procs", pid)
		}
		_ = os.Remove(worker)
	}()
	for _, pid := range pids {
		if err := writeFile(worker, "cgroup.procs", pid); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("move the worker to a cgroup of its own: %w", err)
		}
		moved = append(moved, pid)
	}
	if err := writeFile(c.dir, "cgroup.subtree_control", "+"+strings.Join(c.controllers, " +")); err != nil {
		return fmt.Errorf("enable the controllers of the cgroup: %w", err)
	}
	return nil
}

func writeFile(dir, file, text string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644)
}

// fieldsOf reads the space-separated fields of a file.
func fieldsOf(file string) ([]string, error) {
	data, err := os.ReadFile(file)
	return strings.Fields(string(data)), err
}

// cgroup contains one process of an agent and its descendants; nil: there is none.
type cgroup struct {
	dir       string
	open      *os.File
	maxMemory int64
}

// create makes a cgroup with the limits of the launcher.
func (c *Cgroups) create(l *Launcher) (*cgroup, error) {
	if c == nil {
		return nil, nil //nolint:nilnil // no cgroup is a valid answer
	}
	g := &cgroup{dir: filepath.Join(c.dir, agentGroups+rand.Text()), maxMemory: l.MaxMemory}
	err := os.Mkdir(g.dir, 0o755)
	if err == nil {
		err = c.limit(g.dir, l)
	}
	if err == nil {
		g.open, err = os.OpenFile(g.dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	}
	if err != nil {
		g.remove()
		return nil, fmt.Errorf("make a cgroup: %w", err)
	}
	return g, nil
}

func (c *Cgroups) limit(dir string, l *Launcher) error {
	for _, limit := range []struct {
		controller, file, value string
		optional                bool // a host or kernel may lack it
	}{
		{"memory", "memory.max", strconv.FormatInt(l.MaxMemory, 10), false},
		{"memory", "memory.swap.max", "0", true},
		{"memory", "memory.oom.group", "1", true},
		{"pids", "pids.max", strconv.FormatUint(room.HardThreads(l.Threads.Each), 10), false},
		{"cpu", "cpu.weight", agentWeight, false},
	} {
		if !slices.Contains(c.controllers, limit.controller) {
			continue
		}
		if err := writeFile(dir, limit.file, limit.value); err != nil && !limit.optional {
			return err
		}
	}
	return nil
}

// killed returns how many bytes were in use when the kernel killed the processes because of
// the memory limit; zero: it did not. hostFull: the kernel killed processes because the host, or the
// worker's container, had no memory.
func (g *cgroup) killed() (used int64, hostFull bool) {
	if g == nil {
		return 0, false
	}
	events, err := fieldsOf(filepath.Join(g.dir, "memory.events")) // pairs of a name and a number
	occurred := func(name string) bool {
		at := slices.Index(events, name)
		return at >= 0 && at+1 < len(events) && events[at+1] != "0"
	}
	if err != nil || !occurred("oom_kill") {
		return 0, false
	}
	if !occurred("oom") { // the cgroup did not reach its own limit
		return 0, true
	}
	if peak, err := fieldsOf(filepath.Join(g.dir, "memory.peak")); err == nil && len(peak) == 1 {
		if n, err := strconv.ParseInt(peak[0], 10, 64); err == nil {
			return max(n, 1), false
		}
	}
	return g.maxMemory, false
}

// remove kills the remaining processes of the cgroup and removes it. A cgroup that cannot be
// removed is removed by the next worker.
func (g *cgroup) remove() {
	if g == nil {
		return
	}
	if g.open != nil {
		_ = g.open.Close() // only read
	}
	_ = writeFile(g.dir, "cgroup.kill", "1") // a kernel before 5.14 has none
	limit := time.NewTimer(removeLimit)
	defer limit.Stop()
	wait := time.NewTicker(removePause)
	defer wait.Stop()
	for errors.Is(os.Remove(g.dir), syscall.EBUSY) {
		select {
		case <-limit.C:
			return
		case <-wait.C:
		}
	}
}
