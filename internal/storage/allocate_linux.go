package storage

import (
	"os"

	"golang.org/x/sys/unix"
)

// allocate reserves disk space for an empty file. The error is [errors.ErrUnsupported] if the
// file system cannot do that.
func allocate(f *os.File, size int64) error { return unix.Fallocate(int(f.Fd()), 0, 0, size) }
