package state

import "golang.org/x/sys/unix"

// fileSystems are those on which SQLite's locks and shared memory work.
const fileSystems = "apfs or hfs"

// kindOf names the type of a file system, and tells whether it is one of them.
func kindOf(fs *unix.Statfs_t) (kind string, safe bool) {
	kind = unix.ByteSliceToString(fs.Fstypename[:])
	return kind, kind == "apfs" || kind == "hfs"
}
