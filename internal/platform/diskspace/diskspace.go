// Package diskspace measures the free space of a file system.
package diskspace

import (
	"errors"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A disk counts as full with less than a sixteenth of it left, or less than this.
const (
	lowPart        = 16
	lowBytes int64 = 256 << 20
	lowFiles int64 = 10_000
)

// Left is the free space of a file system.
type Left struct {
	// Bytes and Files are how many bytes and files fit on it.
	Bytes, Files int64
	// LowBytes and LowFiles: with fewer free, it counts as full; zero: it never does.
	LowBytes, LowFiles int64
}

// IsLow reports whether space has to be freed.
func (l Left) IsLow() bool { return l.Bytes < l.LowBytes || l.Files < l.LowFiles }

// IsFull reports whether an error says that a disk or a quota is full.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Of returns the free space of the file system of a directory.
func Of(dir string) (Left, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Left{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return leftOf(&st), nil
}

func leftOf(st *unix.Statfs_t) Left {
	block := int64(st.Bsize) //nolint:unconvert // the types differ by platform
	left := Left{
		Bytes: int64(st.Bavail) * block, LowBytes: min(int64(st.Blocks)*block/lowPart, //nolint:gosec // no disk is that large
			lowBytes),
		Files: int64(st.Ffree), LowFiles: min(int64(st.Files)/lowPart, lowFiles), //nolint:gosec // no disk has that many files
	}
	if left.Files < 0 { // CephFS does not know it
		left.Files, left.LowFiles = math.MaxInt64, 0
	}
	return left
}
