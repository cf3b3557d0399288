package state

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// checkFileSystem refuses a directory on a file system on which SQLite is not safe, like one of the network.
func checkFileSystem(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("find the file system of %s: %w", dir, err)
	}
	if kind, safe := kindOf(&fs); !safe {
		return fmt.Errorf("%s is on a file system of type %s, on which SQLite is not safe; use a state directory on %s, or a "+
			"PostgreSQL database for several hosts", dir, kind, fileSystems)
	}
	return nil
}
