package room

import (
	"fmt"
	"os"
	"strings"
)

// switches are settings of the kernel that forbid rooms, with the value that does.
var switches = []struct{ path, value, remedy string }{
	{"/proc/sys/user/max_user_namespaces", "0", "user namespaces are switched off; set `sysctl user.max_user_namespaces=10000`"},
	{"/proc/sys/kernel/unprivileged_userns_clone", "0", "user namespaces are for root only; set `sysctl kernel.unprivileged_userns_clone=1`"},
	{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor restricts user namespaces; give maestro-shim a profile with `userns,`, see docs/deployment.md, or set `sysctl kernel.apparmor_restrict_unprivileged_userns=0`"},
}

// Remedy adds to the reason why a room cannot be made what has to be changed on this host.
func Remedy(err error) error {
	for _, s := range switches {
		if data, e := os.ReadFile(s.path); e == nil && strings.TrimSpace(string(data)) == s.value {
			return fmt.Errorf("%w: %s", err, s.remedy)
		}
	}
	if exists("/run/.containerenv") || exists("/.dockerenv") || exists("/run/secrets/kubernetes.io") {
		return fmt.Errorf("%w: the container forbids it; see docs/deployment.md for the options that permit user namespaces and mounts", err)
	}
	if Filtered() {
		return fmt.Errorf("%w: the filter of system calls of this service forbids it; below systemd, install deploy/systemd/rooms.conf", err)
	}
	return fmt.Errorf("%w: a room needs Linux 5.12 or later with user namespaces", err)
}

// Filtered reports whether a filter of system calls (seccomp) holds for this process.
func Filtered() bool {
	status, err := os.ReadFile("/proc/self/status")
	return err == nil && strings.Contains(string(status), "\nSeccomp:\t2\n")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
