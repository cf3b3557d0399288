// Package proctree reads the processes of this host and its boot, and kills trees of processes. Linux has them in /proc; macOS
// has less: [ShowsUse].
package proctree

import (
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// KillLimit bounds how long the end of a process tree may take. A process that
// is alive after it hangs in the kernel, or belongs to another user.
const KillLimit = 10 * time.Second

// Process is a process as the kernel shows it.
type Process struct {
	PID, Parent, Group, Session int
	Threads                     int
	// Name is chosen by the process.
	Name string
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

// Threads counts the threads of processes.
func Threads(procs []Process) (sum int) {
	for _, p := range procs {
		sum += p.Threads
	}
	return sum
}

// Below reads the descendants of a process. On macOS the parent of a process whose parent has ended is the first process of
// the host.
func Below(pid int) []Process {
	return below(All(), func(p Process) bool { return p.Parent == pid })
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

// EndOrphans kills the processes of a killed shim, and returns how many could
// not be killed. The caller must be a subreaper, otherwise the kernel does not
// give it the orphans: see procgroup.Harden. macOS has no subreapers, so it finds none there. It kills the children of this
// process that started after the shim and are not in its session, with their descendants.
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
	reaped, _ := syscall.Wait4(p.PID, &status, syscall.WNOHANG|WaitAll, nil)
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
