package room

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// setupCapabilities are the capabilities that the shim needs in its user namespace until the room
// is created.
var setupCapabilities = []uintptr{
	unix.CAP_SYS_ADMIN, unix.CAP_DAC_OVERRIDE, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP,
	unix.CAP_NET_ADMIN, unix.CAP_SYS_RESOURCE,
}

// Namespaces returns the attributes with which to start a shim as the first process of a room.
//
// The flags make the shim share the worker's memory until its program starts (vfork). Go itself
// does so for all processes except those in a new user namespace. To copy the page tables of a
// worker would take milliseconds, and so would the page faults afterwards. With vfork, the ids of
// the shim can be mapped only after its program has started; see [Layout.MapIDs].
func (l *Layout) Namespaces() *syscall.SysProcAttr {
	flags := unix.CLONE_VFORK | unix.CLONE_VM | unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUTS
	if l.Network == NetworkNone {
		flags |= unix.CLONE_NEWNET
	}
	return &syscall.SysProcAttr{Setpgid: true, Cloneflags: uintptr(flags), AmbientCaps: setupCapabilities}
}

// MapIDs maps the ids of a shim that has not received its orders yet. Only root can map the ids
// of another user; the shim of a worker without root maps its own.
func (l *Layout) MapIDs(shim int) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return l.writeMaps(filepath.Join("/proc", strconv.Itoa(shim)))
}

// mapOwnIDs maps the ids of this process if its worker has not. A worker without root cannot: it
// is undumpable, and so are this process's files in /proc.
func (l *Layout) mapOwnIDs() error {
	if mapped, err := os.ReadFile("/proc/self/uid_map"); err != nil || len(mapped) > 0 {
		return err
	}
	// Only a dumpable process owns its files in /proc. No agent code runs yet.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		return err
	}
	defer unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) //nolint:errcheck // it cannot fail with these arguments
	if err := overwrite("/proc/self/setgroups", "deny"); err != nil {
		return fmt.Errorf("keep the groups of the room: %w", err)
	}
	return l.writeMaps("/proc/self")
}

// writeMaps maps the ids of a process, given its directory in /proc.
func (l *Layout) writeMaps(proc string) error {
	for _, m := range []struct {
		file string
		id   uint32
	}{{"gid_map", l.GID}, {"uid_map", l.UID}} {
		if err := overwrite(filepath.Join(proc, m.file), fmt.Sprintf("%d %d 1", agentID, m.id)); err != nil {
			return fmt.Errorf("map the user of the room: %w", err)
		}
	}
	return nil
}
