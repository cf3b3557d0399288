package store

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/session"
)

// A disk counts as full with less than a sixteenth of it left, or less than this.
const (
	lowPart        = 16
	lowBytes int64 = 256 << 20
	lowFiles int64 = 10_000
)

// Disk tells what the disk has left that agents work on.
func (s *Store) Disk() (session.Disk, error) {
	d, err := diskOf(s.workRoot)
	if errors.Is(err, fs.ErrNotExist) {
		d, err = diskOf(s.dir)
	}
	d.MaxWritten = s.limits.DiskBytes
	return d, err
}

func diskOf(dir string) (d session.Disk, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return d, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	block := int64(st.Bsize) //nolint:unconvert // the types differ by platform
	return session.Disk{
		Free: int64(st.Bavail) * block, Low: min(int64(st.Blocks)*block/lowPart, lowBytes), //nolint:gosec // no disk is that large
		FreeFiles: int64(st.Ffree), LowFiles: min(int64(st.Files)/lowPart, lowFiles), //nolint:gosec // no disk has that many files
	}, nil
}
