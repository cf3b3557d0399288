package room

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// objectLimits are limits of kernel objects that are counted for the worker's user over all rooms. One
// room must not use up what other rooms and the host need. Of namespaces it has as many as a browser or the sandbox of an
// agent takes: each costs memory that only a cgroup counts, and holds mounts that do, too.
var objectLimits = []struct{ name, most string }{
	{"max_inotify_instances", "32"},
	{"max_inotify_watches", "65536"},
	{"max_fanotify_groups", "8"},
	{"max_fanotify_marks", "8192"},
	{"max_user_namespaces", "32"},
	{"max_mnt_namespaces", "32"},
	{"max_pid_namespaces", "64"}, // a browser has one for each page
	{"max_net_namespaces", "32"},
	{"max_ipc_namespaces", "32"},
	{"max_uts_namespaces", "32"},
	{"max_cgroup_namespaces", "0"}, // in one, an agent could change its own cgroup
	{"max_time_namespaces", "32"},
}

// limitObjects sets the limits of objects in this user namespace. Limits that the kernel does not
// have are skipped.
func limitObjects(root dir) error {
	fd, err := root.open("proc/sys/user", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("limit the room: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // only a place
	for _, o := range objectLimits {
		if err := dir(fd).write(o.name, o.most, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("limit the room: %w", err)
		}
	}
	return nil
}
