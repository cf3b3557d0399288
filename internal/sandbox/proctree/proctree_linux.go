package proctree

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ShowsUse says that the kernel shows the memory and the threads of processes.
const ShowsUse = true

// WaitAll waits for every kind of child.
const WaitAll = unix.WALL

// EndWithThread makes the kernel kill a process with the thread that starts it.
func EndWithThread(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// BootID returns an identifier of the current start of the host. Files that were written before it, and not synced, may be
// incomplete after a power loss.
func BootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// Now returns the time since boot in clock ticks of 10 ms.
func Now() uint64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)         // it cannot fail with these arguments
	return uint64(max(now.Nano()/int64(time.Second/100), 0)) // not negative
}

// Read reads one process; ok is false if there is none.
func Read(pid int) (p Process, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, false
	}
	return parseStat(pid, data)
}

// parseStat reads a /proc/PID/stat. The second field is the name, in brackets,
// and the process chooses it: it may hold brackets and blanks itself.
func parseStat(pid int, data []byte) (p Process, ok bool) {
	const parent, group, session, terminal, threads, started = 1, 2, 3, 4, 17, 19 // after the name
	begin, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if begin < 0 || end < begin {
		return Process{}, false
	}
	fields := bytes.Fields(data[end+1:])
	if len(fields) <= started {
		return Process{}, false
	}
	number := func(i int) int {
		n, err := strconv.Atoi(string(fields[i]))
		ok = ok && err == nil
		return n
	}
	ok = true
	p = Process{
		PID: pid, Name: string(data[begin+1 : end]), Parent: number(parent), Group: number(group), Session: number(session),
		Threads:  number(threads),
		Terminal: number(terminal) != 0,
	}
	p.Started = uint64(max(number(started), 0)) // not negative
	ended := fields[0][0] == 'Z' || fields[0][0] == 'X'
	p.Zombie, p.headless = ended && p.Threads < 2, ended && p.Threads > 1
	p.Stopped = fields[0][0] == 'T'
	return p, ok
}

// All reads all processes of this host.
func All() []Process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close() //nolint:errcheck // only read
	names, _ := dir.Readdirnames(-1)
	procs := make([]Process, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := Read(pid); ok {
			procs = append(procs, p)
		}
	}
	return procs
}

// Dir returns the directory in /proc that shows what the process has.
func (p Process) Dir() string {
	dir := "/proc/" + strconv.Itoa(p.PID)
	if !p.headless {
		return dir
	}
	threads, _ := os.ReadDir(dir + "/task")
	for _, t := range threads {
		if t.Name() != strconv.Itoa(p.PID) {
			return dir + "/task/" + t.Name()
		}
	}
	return dir
}

// Links lists the links in /proc to the open files of the process, its working directory, root and program.
func (p Process) Links() []string {
	dir := p.Dir()
	return append(OpenFiles(dir), dir+"/cwd", dir+"/root", dir+"/exe")
}

// OpenFiles lists the links in /proc to the open files of a process or a thread, by its directory there; none if they
// cannot be read.
func OpenFiles(proc string) (links []string) {
	dir := proc + "/fd"
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		links = append(links, dir+"/"+e.Name())
	}
	return links
}

// Launched returns the arguments and the environment with which the process's program was started; none that cannot be read.
func (p Process) Launched() (arguments, environment []string) {
	split := func(file string) []string {
		data, _ := os.ReadFile(p.Dir() + file)
		return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
	}
	return split("/cmdline"), split("/environ")
}

// User returns the effective user id of a process. The owner of its directory in /proc is
// another one where the process has made itself undumpable.
func User(pid int) (uid int, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, false
	}
	_, ids, _ := bytes.Cut(data, []byte("\nUid:")) // a name has no line break there
	fields := bytes.Fields(ids)
	if len(fields) < 2 {
		return 0, false
	}
	uid, err = strconv.Atoi(string(fields[1]))
	return uid, err == nil
}

// reapFor reaps until no child is left or the time is over.
func reapFor(most time.Duration, reap func() (alone bool)) (alone bool) {
	left := unix.NsecToTimespec(most.Nanoseconds())
	for !reap() {
		if unix.Nanosleep(&left, &left) == nil { // the signal of a child's end interrupts it
			return reap()
		}
	}
	return true
}

// readChildren lists the children of this process.
func readChildren() []int {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	var pids []int
	for _, list := range lists {
		data, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		for _, field := range bytes.Fields(data) {
			if pid, err := strconv.Atoi(string(field)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// EndDescendants kills every descendant of this process, which must be a
// subreaper, and returns when there is none, or when some cannot be killed.
// reap waits for the children that have ended, and reports whether no child is
// left, dead or alive. A subreaper without a child has no descendant either:
// the first ancestor of any would be its child.
func EndDescendants(_ int, reap func() (alone bool)) (killed map[int]bool, survivors int) {
	find := func() []Process { return Below(os.Getpid()) }
	killed = map[int]bool{}
	// Most agents leave no process behind. This case needs no search.
	if reapFor(pollInterval, reap) {
		return killed, 0
	}
	limit := time.NewTimer(KillLimit)
	defer limit.Stop()
	for {
		now := endChildren(reap)
		maps.Copy(now, Kill(find))
		maps.Copy(killed, now)
		if reapFor(pollInterval, reap) {
			return killed, 0
		}
		select {
		case <-limit.C:
			return killed, max(len(now), 1)
		default:
		}
	}
}

// endChildren kills the children of this process, and those that it inherits
// from them, until there are none. It reads far less than [Kill] does,
// and so keeps up with processes that fork and exit all the time, each a child
// for a moment. It finds nothing where the kernel does not list children.
func endChildren(reap func() (alone bool)) (killed map[int]bool) {
	const rounds = 100
	killed = map[int]bool{}
	own := unix.Getpgrp()
	for range rounds {
		children := readChildren()
		if len(children) == 0 {
			break
		}
		for _, pid := range children {
			killed[pid] = true
			if group, err := unix.Getpgid(pid); err == nil && group > 1 && group != own {
				_ = syscall.Kill(-group, syscall.SIGKILL) // see Kill
			}
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if reap() {
			break
		}
	}
	return killed
}
