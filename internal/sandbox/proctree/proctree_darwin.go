package proctree

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ShowsUse: the kernel shows the memory and the threads of processes. macOS has them in a library of C only, so each process
// counts as one thread.
const ShowsUse = false

// WaitAll waits for every kind of child.
const WaitAll = 0

// EndWithThread does nothing: macOS ends no process with another.
func EndWithThread(*syscall.SysProcAttr) {}

// BootID returns an identifier of the current start of the host.
func BootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

// Now returns the time in microseconds.
func Now() uint64 { return uint64(time.Now().UnixMicro()) }

// Read reads one process; ok is false if there is none.
func Read(pid int) (p Process, ok bool) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid {
		return Process{}, false
	}
	return processOf(k), true
}

func processOf(k *unix.KinfoProc) Process {
	const stopped, zombie, noDevice = 4, 5, -1 // SSTOP, SZOMB, NODEV
	pid := int(k.Proc.P_pid)
	session, _ := unix.Getsid(pid)
	return Process{
		PID: pid, Name: unix.ByteSliceToString(k.Proc.P_comm[:]), Threads: 1,
		Parent: int(k.Eproc.Ppid), Group: int(k.Eproc.Pgid), Session: session,
		Zombie: k.Proc.P_stat == zombie, Stopped: k.Proc.P_stat == stopped, Terminal: k.Eproc.Tdev != noDevice,
		Started: uint64(k.Proc.P_starttime.Nano() / int64(time.Microsecond)),
	}
}

// All reads all processes of this host.
func All() []Process {
	all, _ := unix.SysctlKinfoProcSlice("kern.proc.all")
	procs := make([]Process, len(all))
	for i := range all {
		procs[i] = processOf(&all[i])
	}
	return procs
}

// User returns the effective user id of a process.
func User(pid int) (uid int, ok bool) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, false
	}
	return int(k.Eproc.Ucred.Uid), true
}

// Launched returns the arguments and the environment with which the process's program was started; none that cannot be read,
// and no environment of a program that is part of macOS. The kernel has their number, the program's path, zeros, and then both.
func (p Process) Launched() (arguments, environment []string) {
	data, err := unix.SysctlRaw("kern.procargs2", p.PID)
	if err != nil || len(data) < 4 {
		return nil, nil
	}
	_, rest, _ := bytes.Cut(data[4:], []byte{0})
	all := strings.Split(string(bytes.TrimLeft(rest, "\x00")), "\x00")
	count := min(int(binary.NativeEndian.Uint32(data)), len(all))
	return all[:count], all[count:]
}

// Links lists nothing: macOS has the open files of a process in a library of C only.
func (p Process) Links() []string { return nil }

// Memory returns zero: see [ShowsUse].
func Memory([]Process, int64) int64 { return 0 }

// EndDescendants kills the processes of a session and the descendants of this process, and returns when there is none, or when
// some cannot be killed. A process that has begun a session of its own, and whose parent has ended, is not found. reap waits
// for the children that have ended.
func EndDescendants(session int, reap func() (alone bool)) (killed map[int]bool, survivors int) {
	find := func() []Process {
		reap()
		found := below(All(), func(p Process) bool { return p.Session == session || p.Parent == os.Getpid() })
		return slices.DeleteFunc(found, func(p Process) bool { return p.Zombie })
	}
	killed = Kill(find)
	return killed, len(KillAll(find, KillLimit))
}
