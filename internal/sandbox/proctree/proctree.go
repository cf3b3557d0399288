// Package proctree reads the processes of this host and its boot from /proc, and kills trees of processes.
package proctree

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// KillLimit bounds how long the end of a process tree may take. A process that
// is alive after it hangs in the kernel, or belongs to another user.
const KillLimit = 10 * time.Second

// Process is a process as /proc shows it.
type Process struct {
	PID, Parent, Group, Session int
	Threads                     int
	// Zombie: it has ended and was not reaped. Stopped: a signal has stopped it.
	Zombie, Stopped bool
	// headless: its first thread has ended, and others have not. Then /proc shows what it has in the directories of
	// the others only.
	headless bool
	// Terminal: it has a controlling terminal.
	Terminal bool
	// Started is when it was started, in the unit of [Now].
	Started uint64
}

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
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
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
		PID: pid, Parent: number(parent), Group: number(group), Session: number(session), Threads: number(threads),
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

// Threads counts the threads of processes.
func Threads(procs []Process) (sum int) {
	for _, p := range procs {
		sum += p.Threads
	}
	return sum
}

// Below reads the descendants of a process.
func Below(pid int) []Process {
	return below(All(), func(p Process) bool { return p.Parent == pid })
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

// below returns the processes among all that root accepts, and the descendants
// of these.
func below(all []Process, root func(Process) bool) []Process {
	children := make(map[int][]Process, len(all))
	var found []Process
	for _, p := range all {
		if root(p) {
			found = append(found, p)
		}
		children[p.Parent] = append(children[p.Parent], p)
	}
	seen := map[int]bool{}
	for _, p := range found {
		seen[p.PID] = true
	}
	for i := 0; i < len(found); i++ {
		for _, child := range children[found[i].PID] {
			if !seen[child.PID] {
				seen[child.PID] = true
				found = append(found, child)
			}
		}
	}
	return found
}

// Kill freezes the living processes that find returns, until it returns no new
// ones, and then kills them all. Frozen processes start no others, so that a
// tree that grows while it is read is found as a whole. Process groups are
// killed with one signal, which also kills processes that fork and exit all the time.
// It returns the processes that it killed, or tried to kill.
func Kill(find func() []Process) (killed map[int]bool) {
	const passes = 10
	killed = map[int]bool{}
	groups := map[int]bool{}
	own := unix.Getpgrp()
	for range passes {
		added := 0
		for _, p := range find() {
			if p.Zombie || killed[p.PID] {
				continue
			}
			added++
			killed[p.PID] = true
			_ = syscall.Kill(p.PID, syscall.SIGSTOP)
			// A group belongs to one session, which the agent began, so it
			// has processes of the agent only. This process's own group is
			// left out: a child is in it between fork and setsid.
			if p.Group > 1 && p.Group != own {
				groups[p.Group] = true
			}
		}
		if added == 0 {
			break
		}
	}
	for group := range groups {
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
	for pid := range killed {
		_ = syscall.Kill(pid, syscall.SIGKILL) // callers search again for those that cannot be killed
	}
	return killed
}

// pollInterval is the time between two checks of processes that are to end.
const pollInterval = 2 * time.Millisecond

// EndDescendants kills every descendant of this process, which must be a
// subreaper, and returns when there is none, or when some cannot be killed.
// reap waits for the children that have ended, and reports whether no child is
// left, dead or alive. A subreaper without a child has no descendant either:
// the first ancestor of any would be its child.
func EndDescendants(reap func() (alone bool)) (killed map[int]bool, survivors int) {
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

// EndOrphans kills the processes of a killed shim, and returns how many could
// not be killed. The caller must be a subreaper, otherwise the kernel does not
// give it the orphans: see procgroup.Harden. It kills the children of this process
// that started after the shim and are not in its session, with their descendants.
// Only an agent's processes are in other sessions: a shim stays in its worker's
// session, which no agent can enter.
func EndOrphans(shimStarted uint64) (survivors int) {
	self := os.Getpid()
	session, err := unix.Getsid(0)
	if err != nil {
		return 0
	}
	orphan := func(p Process) bool {
		return p.Parent == self && p.Session != session && p.Started >= shimStarted
	}
	find := func() []Process { return slices.DeleteFunc(below(All(), orphan), isReaped) }
	return len(KillAll(find, KillLimit))
}

// isReaped reaps a process if it is a child of this process and has ended.
func isReaped(p Process) bool {
	var status syscall.WaitStatus
	reaped, _ := syscall.Wait4(p.PID, &status, syscall.WNOHANG|unix.WALL, nil)
	return reaped == p.PID
}

// KillAll kills the processes that find returns until it returns none. left are those that are alive after the time.
func KillAll(find func() []Process, within time.Duration) (left []Process) {
	limit := time.NewTimer(within)
	defer limit.Stop()
	wait := time.NewTicker(pollInterval)
	defer wait.Stop()
	for {
		if left = find(); len(left) == 0 {
			return nil
		}
		Kill(find)
		select {
		case <-limit.C:
			return left
		case <-wait.C:
		}
	}
}
