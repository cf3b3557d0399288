package procgroup

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killLimit bounds how long the end of a process tree may take. Past it, what
// cannot be killed hangs in the kernel, or belongs to another user.
const killLimit = 10 * time.Second

// threadCheckInterval is how often the supervisor checks whether an argv runs too many
// threads.
const threadCheckInterval = 250 * time.Millisecond

// proc is a process as /proc shows it.
type proc struct {
	pid, parent, group, session int
	threads                     int
	// zombie: it is dead and waits for its parent. stopped: by a signal.
	zombie, stopped bool
	// terminal: it has a controlling terminal.
	terminal bool
	// started is when, in clock ticks since boot.
	started uint64
}

// readProc reads one process; ok is false if there is none.
func readProc(pid int) (p proc, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return proc{}, false
	}
	return parseStat(pid, data)
}

// parseStat reads a /proc/PID/stat. The second field is the name, in brackets,
// and the process chooses it: it may hold brackets and blanks itself.
func parseStat(pid int, data []byte) (p proc, ok bool) {
	const parent, group, session, terminal, threads, started = 1, 2, 3, 4, 17, 19 // after the name
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return proc{}, false
	}
	fields := bytes.Fields(data[end+1:])
	if len(fields) <= started {
		return proc{}, false
	}
	number := func(i int) int {
		n, err := strconv.Atoi(string(fields[i]))
		ok = ok && err == nil
		return n
	}
	ok = true
	p = proc{pid: pid, parent: number(parent), group: number(group), session: number(session), threads: number(threads), terminal: number(terminal) != 0}
	p.started = uint64(max(number(started), 0)) // not negative
	p.zombie = fields[0][0] == 'Z' || fields[0][0] == 'X'
	p.stopped = fields[0][0] == 'T'
	return p, ok
}

// readProcs reads every process that there is.
func readProcs() []proc {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close() //nolint:errcheck // only read
	names, _ := dir.Readdirnames(-1)
	procs := make([]proc, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProc(pid); ok {
			procs = append(procs, p)
		}
	}
	return procs
}

// threadsOfHost counts the threads of all processes; zero if that is unknown.
func threadsOfHost() int {
	data, err := os.ReadFile("/proc/loadavg") // 0.20 0.18 0.12 1/80 11206
	if err != nil {
		return 0
	}
	fields := bytes.Fields(data)
	if len(fields) < 4 {
		return 0
	}
	_, all, _ := bytes.Cut(fields[3], []byte("/"))
	n, err := strconv.Atoi(string(all))
	if err != nil {
		return 0
	}
	return n
}

// threadsBelow counts the threads of a process's descendants.
func threadsBelow(pid int) int {
	sum := 0
	for _, p := range below(readProcs(), func(p proc) bool { return p.parent == pid }) {
		sum += p.threads
	}
	return sum
}

// below returns the processes among all whose ancestors include one that root
// accepts, those themselves included.
func below(all []proc, root func(proc) bool) []proc {
	children := make(map[int][]proc, len(all))
	var found []proc
	for _, p := range all {
		if root(p) {
			found = append(found, p)
		}
		children[p.parent] = append(children[p.parent], p)
	}
	seen := map[int]bool{}
	for _, p := range found {
		seen[p.pid] = true
	}
	for i := 0; i < len(found); i++ {
		for _, child := range children[found[i].pid] {
			if !seen[child.pid] {
				seen[child.pid] = true
				found = append(found, child)
			}
		}
	}
	return found
}

// sweep freezes the living processes that find returns, until it returns no new
// ones, and then kills them all. Frozen processes start no others, so that a
// tree that grows while it is read is still caught; whole process groups are
// killed at one stroke, which catches those that fork and exit all the time.
// It returns what it killed, or tried to.
func sweep(find func() []proc) (killed map[int]bool) {
	const passes = 10
	killed = map[int]bool{}
	groups := map[int]bool{}
	own := unix.Getpgrp()
	for range passes {
		news := 0
		for _, p := range find() {
			if p.zombie || killed[p.pid] {
				continue
			}
			news++
			killed[p.pid] = true
			_ = syscall.Kill(p.pid, syscall.SIGSTOP)
			// A group lies within one session, which the agent began: no
			// innocent process is in it. The shim's own is excepted for the
			// moment between fork and setsid.
			if p.group > 1 && p.group != own {
				groups[p.group] = true
			}
		}
		if news == 0 {
			break
		}
	}
	for group := range groups {
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
	for pid := range killed {
		_ = syscall.Kill(pid, syscall.SIGKILL) // whoever cannot be killed is seen again
	}
	return killed
}

// endDescendants kills every descendant of this process, which must be a
// subreaper, and returns when alone is closed, or when some cannot be killed.
func endDescendants(alone <-chan struct{}) (killed map[int]bool, survivors int) {
	self := os.Getpid()
	find := func() []proc {
		return below(readProcs(), func(p proc) bool { return p.parent == self })
	}
	killed = map[int]bool{}
	limit := time.NewTimer(killLimit)
	defer limit.Stop()
	wait := time.NewTicker(2 * time.Millisecond)
	defer wait.Stop()
	// An agent that leaves nothing is the usual case, and is known in no time.
	select {
	case <-alone:
		return killed, 0
	case <-wait.C:
	}
	for {
		now := endChildren()
		maps.Copy(now, sweep(find))
		maps.Copy(killed, now)
		select {
		case <-alone:
			return killed, 0
		case <-limit.C:
			return killed, max(len(now), 1)
		case <-wait.C:
		}
	}
}

// endChildren kills the children of this process, and those that it inherits
// from them, for as long as there are any. It reads far less than a sweep does,
// and so keeps up with processes that fork and exit all the time, each a child
// for a moment. It finds nothing where the kernel does not list children.
func endChildren() (killed map[int]bool) {
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
				_ = syscall.Kill(-group, syscall.SIGKILL) // see sweep
			}
			_ = syscall.Kill(pid, syscall.SIGKILL)
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

// endOrphans kills what a killed shim has left to this process, and returns how
// many could not be killed. It finds something only in a process that is a
// subreaper; see [Harden]. What it looks for are children that this process did
// not start: they were born after the shim and are in a session of their own,
// as only an agent's processes are. A shim is not: it stays in its worker's
// session, which no agent can enter.
func endOrphans(shimStarted uint64) (survivors int) {
	self := os.Getpid()
	session, err := unix.Getsid(0)
	if err != nil {
		return 0
	}
	orphan := func(p proc) bool {
		return p.parent == self && p.session != session && p.started >= shimStarted
	}
	find := func() []proc { return below(readProcs(), orphan) }
	limit := time.NewTimer(killLimit)
	defer limit.Stop()
	wait := time.NewTicker(2 * time.Millisecond)
	defer wait.Stop()
	for {
		sweep(find)
		left := 0
		for _, p := range find() {
			var status syscall.WaitStatus
			if reaped, _ := syscall.Wait4(p.pid, &status, syscall.WNOHANG|unix.WALL, nil); reaped != p.pid {
				left++
			}
		}
		if left == 0 {
			return 0
		}
		select {
		case <-limit.C:
			return left
		case <-wait.C:
		}
	}
}
