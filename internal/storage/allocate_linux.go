package storage

import (
	"os"

	"golang.org/x/sys/unix"
)

// allocate gives an empty file its size on disk. The error is [errors.ErrUnsupported]
// where the file system cannot do that.
func allocate(f *os.File, size int64) error { return unix.Fallocate(int(f.Fd()), 0, 0, size) }
