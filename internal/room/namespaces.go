package room

import (
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
	return &syscall.SysProcAttr{
		Setpgid:                    true,
		Cloneflags:                 uintptr(flags),
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: agentID, HostID: int(l.UID), Size: 1}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: agentID, HostID: int(l.GID), Size: 1}},
		GidMappingsEnableSetgroups: os.Geteuid() == 0,
		AmbientCaps:                setupCapabilities,
	}
}
