package room

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// setupCapabilities are those that the shim needs within its user namespace until the room
// is made.
var setupCapabilities = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_DAC_OVERRIDE, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP, unix.CAP_NET_ADMIN, unix.CAP_SYS_RESOURCE}

// Namespaces makes the attributes with which a shim is started as the first process of
// a room.
func (l *Layout) Namespaces() *syscall.SysProcAttr {
	flags := unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if l.Network == NetworkNone {
		flags |= unix.CLONE_NEWNET
	}
	attr := &syscall.SysProcAttr{Setpgid: true, Cloneflags: uintptr(flags), AmbientCaps: setupCapabilities}
	if os.Geteuid() == 0 { // otherwise the shim maps its own ids, see [Layout.mapIDs]
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: agentID, HostID: int(l.UID), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: agentID, HostID: int(l.GID), Size: 1}}
		attr.GidMappingsEnableSetgroups = true
	}
	return attr
}

// mapIDs maps the ids of this process, if its worker has not: an ordinary user's worker that is
// undumpable starts processes that are so, too, and may not write their maps.
func (l *Layout) mapIDs() error {
	if now, err := os.ReadFile("/proc/self/uid_map"); err != nil || len(now) > 0 {
		return err
	}
	// Only a dumpable process owns its files in /proc. Nothing of an agent runs yet.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		return err
	}
	defer unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) //nolint:errcheck // it cannot fail with these arguments
	for _, file := range []struct{ name, text string }{
		{"setgroups", "deny"}, {"gid_map", fmt.Sprintf("%d %d 1", agentID, l.GID)}, {"uid_map", fmt.Sprintf("%d %d 1", agentID, l.UID)},
	} {
		if err := os.WriteFile("/proc/self/"+file.name, []byte(file.text), 0); err != nil {
			return fmt.Errorf("map the user of the room: %w", err)
		}
	}
	return nil
}
