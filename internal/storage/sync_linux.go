package storage

import (
	"os"

	"golang.org/x/sys/unix"
)

// flushData makes what was written to a file outlive a power loss; times may not.
func flushData(f *os.File) error {
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}

// exchange makes two files take each other's names at once.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
