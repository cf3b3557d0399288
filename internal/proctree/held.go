package proctree

import (
	"errors"
	"os"
	"strconv"
	"strings"

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

// isMemfd: it is a file without a file system that anybody has mounted.
func (f *HeldFile) isMemfd() bool {
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(f.fd))
	return err == nil && strings.HasPrefix(name, "/memfd:")
}

// inMemory: it is in a file system in memory.
func (f *HeldFile) inMemory() bool {
	return f.FS.Type == unix.TMPFS_MAGIC || f.FS.Type == unix.RAMFS_MAGIC
}

// nameCost is how much memory the name, the attributes and the number of a file in memory take, in bytes. The kernel
// counts long attributes as further files.
const nameCost = 1536

// used is how many bytes its file system in memory has.
func (f *HeldFile) used() int64 {
	if f.FS.Blocks == 0 || f.FS.Files == 0 {
		return Immeasurable
	}
	used := func(all, free uint64) int64 { return int64(all - min(free, all)) } //nolint:gosec // the kernel does not add up all processors at once
	return used(f.FS.Blocks, f.FS.Bfree)*f.FS.Bsize + used(f.FS.Files, f.FS.Ffree)*nameCost
}
