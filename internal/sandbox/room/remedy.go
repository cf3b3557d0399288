package room

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelSwitches are kernel settings that forbid rooms, with the value that does.
var kernelSwitches = []struct{ path, value, remedy string }{
	{"/proc/sys/user/max_user_namespaces", "0", "user namespaces are switched off; set `sysctl user.max_user_namespaces=10000` " +
		"on the host"},
	{"/proc/sys/kernel/unprivileged_userns_clone", "0", "user namespaces are for root only; set `sysctl " +
		"kernel.unprivileged_userns_clone=1` on the host"},
	{
		"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
		"AppArmor restricts user namespaces; give maestro-shim a profile with `userns,`, see docs/deployment.md, or set `sysctl " +
			"kernel.apparmor_restrict_unprivileged_userns=0` on the host",
	},
}

// Forbids reports whether an error of creating a room says that the host permits none. Others, like a lack of memory,
// may not last.
func Forbids(err error) bool {
	return slices.ContainsFunc([]error{
		unix.EPERM, unix.EACCES, unix.EINVAL, unix.ENOSYS, unix.ENODEV, unix.EOPNOTSUPP, unix.ENOENT, unix.EROFS,
	}, func(e error) bool { return errors.Is(err, e) }) || errors.Is(err, unix.ENOSPC) && switchedOff() != ""
}

// Remedy adds to an error of creating a room for a user what to change on this host. nil: the user of this process.
func Remedy(err error, user *Account) error {
	if remedy := switchedOff(); remedy != "" {
		return fmt.Errorf("%w: %s", err, remedy)
	}
	if user != nil && !mapped("/proc/self/uid_map", user.UID) {
		return fmt.Errorf("%w: this user namespace has no user id %d, see /proc/self/uid_map; map 65536 ids into it, or start the "+
			"worker as another user than root", err, user.UID)
	}
	if Filtered() || InContainer() {
		return fmt.Errorf("%w: the service or container forbids it; see docs/deployment.md, Rooms, for what permits it below "+
			"systemd, Docker, Podman and Kubernetes", err)
	}
	return fmt.Errorf("%w: a room needs Linux 5.12 or later with user namespaces, and no profile of AppArmor or SELinux that "+
		"forbids mounts", err)
}

// OverlayRemedy adds to an error of mounting an overlay over a directory what to change.
func OverlayRemedy(err error, dir string) error {
	switch {
	case strings.Contains(err.Error(), unix.ENODEV.Error()):
		return fmt.Errorf("%w; load the kernel's module overlay", err)
	case onOverlay(dir):
		return fmt.Errorf("%w, because the directory lies on an overlay; keep the store on a volume, like a directory of the host", err)
	}
	return fmt.Errorf("%w; keep the store on a file system that an overlay can change, like ext4 or xfs", err)
}

// switchedOff is the remedy for the kernel setting that forbids rooms; empty: none does.
func switchedOff() string {
	for _, s := range kernelSwitches {
		if data, e := os.ReadFile(s.path); e == nil && strings.TrimSpace(string(data)) == s.value {
			return s.remedy
		}
	}
	return ""
}

// mapped reports whether a map of a user namespace has an id. An unreadable map has all.
func mapped(file string, id uint32) bool {
	ids, err := os.ReadFile(file)
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(ids)) {
		var first, outside, count uint32
		if _, err := fmt.Sscan(line, &first, &outside, &count); err == nil && id >= first && id-first < count {
			return true
		}
	}
	return false
}

// Filtered reports whether a filter of system calls (seccomp) applies to this process.
func Filtered() bool {
	status, err := os.ReadFile("/proc/self/status")
	return err == nil && strings.Contains(string(status), "\nSeccomp:\t2\n")
}

// InContainer reports whether this process is in a container: its root is an overlay, or a part of
// /proc other than binfmt_misc is a mount point.
func InContainer() bool {
	if onOverlay("/") {
		return true
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo") // if it cannot be read, assume no container
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) > 4 && strings.HasPrefix(f[4], "/proc/") && f[4] != "/proc/sys/fs/binfmt_misc" {
			return true
		}
	}
	return false
}
