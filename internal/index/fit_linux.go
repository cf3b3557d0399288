package index

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Not in package unix.
const (
	zfsMagic      = 0x2fc12fc1
	bcachefsMagic = 0xca451a4e
)

// fit rejects a directory in which several processes cannot share a database: on a file system of
// another host, processes do not share the memory of the database.
func fit(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	switch uint32(st.Type) { //nolint:gosec // magic numbers have 32 bits
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC,
		unix.F2FS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, zfsMagic, bcachefsMagic:
		return nil
	}
	return fmt.Errorf("%s is on a file system of type %#x, which may be that of another host", dir, st.Type)
}
