package state

import (
	"cmp"
	"fmt"

	"golang.org/x/sys/unix"
)

// fileSystems are those on which SQLite's locks and shared memory work.
const fileSystems = "ext4, xfs, btrfs, zfs, f2fs or tmpfs"

// kindOf names the type of a file system, and tells whether it is one of them. An overlay is as good as what it lies on, which
// is a local file system.
func kindOf(fs *unix.Statfs_t) (kind string, safe bool) {
	number := int64(fs.Type) //nolint:unconvert // it has other sizes elsewhere
	kind, safe = map[int64]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", 0x2fc12fc1: "zfs",
		unix.F2FS_SUPER_MAGIC: "f2fs", unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay",
	}[number]
	return cmp.Or(kind, fmt.Sprintf("%#x", number)), safe
}
