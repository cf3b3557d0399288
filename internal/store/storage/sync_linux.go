package storage

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncMany makes files and directories of one file system survive a power loss.
func syncMany(root string, _ []string) error { return FlushFileSystem(root) }

// FlushFileSystem makes everything that was written below a directory survive a power loss.
func FlushFileSystem(root string) (err error) {
	d, err := os.Open(root)
	if err != nil {
		return err
	}
	defer closing(d, &err)
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return &os.PathError{Op: "syncfs", Path: root, Err: err}
	}
	return nil
}
