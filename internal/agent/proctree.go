package agent

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killLimit bounds how long the end of a process tree may take. Past it, what
// cannot be killed hangs in the kernel, or belongs to another user.
const killLimit = 10 * time.Second

// proc is a process as /proc shows it.
type proc struct {
	pid, parent, group, session int
	// zombie: it is dead and waits for its parent.
	zombie bool
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
	const parent, group, session, started = 1, 2, 3, 19 // after the name
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
	p = proc{pid: pid, parent: number(parent), group: number(group), session: number(session)}
	p.started = uint64(max(number(started), 0)) // not negative
	p.zombie = fields[0][0] == 'Z' || fields[0][0] == 'X'
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
// It returns what was killed and what could not be.
func sweep(find func() []proc) (killed map[int]bool, refused int) {
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
		if err := syscall.Kill(pid, syscall.SIGKILL); err == syscall.EPERM {
			refused++
		}
	}
	return killed, refused
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
	for {
		select {
		case <-alone:
			return killed, 0
		default:
		}
		now, _ := sweep(find)
		for pid := range now {
			killed[pid] = true
		}
		select {
		case <-alone:
			return killed, 0
		case <-limit.C:
			return killed, len(now)
		case <-wait.C:
		}
	}
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
