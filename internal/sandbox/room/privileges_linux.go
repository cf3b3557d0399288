package room

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// dropCapabilities permanently drops all capabilities of the calling thread.
func dropCapabilities() error {
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // past the last one
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// restrictScope prevents the calling thread and its descendants from connecting to abstract
// sockets outside of the room, if the kernel's Landlock supports that. The network namespace of
// the host has such sockets.
func restrictScope() error {
	if Landlock() < ScopeVersion {
		return nil
	}
	var r ruleset
	if err := r.make(&unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET}); err != nil {
		return err
	}
	defer unix.Close(r.fd) //nolint:errcheck // the thread holds it
	return r.enforce()
}
