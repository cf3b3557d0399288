package proctree

import (
	"errors"

	"golang.org/x/sys/unix"
)

// HeldFile is a file that stays the same one while it is measured: processes mount, close and open meanwhile, and a
// path in /proc then leads to another file with each call.
type HeldFile struct {
	Stat unix.Stat_t
	// FS describes the file system that it is in.
	FS unix.Statfs_t
	fd int
}

// Hold finds the file at a path without opening it, which would act on a device or a pipe. The caller closes it.
func Hold(path string) (*HeldFile, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := &HeldFile{fd: fd}
	if err := errors.Join(unix.Fstatfs(fd, &f.FS), unix.Fstat(fd, &f.Stat)); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Close ends the hold. The descriptions stay.
func (f *HeldFile) Close() { _ = unix.Close(f.fd) } // only read
