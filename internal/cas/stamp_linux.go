package cas

import "golang.org/x/sys/unix"

// stampFrom returns the stamp of a file. It includes the change time, because programs can set
// all other times.
func stampFrom(st *unix.Stat_t) stamp {
	return stamp{
		Device: st.Dev, Inode: st.Ino, Size: st.Size,
		Modified: unix.TimespecToNsec(st.Mtim), Changed: unix.TimespecToNsec(st.Ctim),
	}
}

// clockOf returns the kernel's clock for the files of a directory: a file that is changed from
// now on gets at least this time. It is zero on file systems without this guarantee, such as
// network file systems.
func clockOf(d directory) clock {
	var st unix.Statfs_t
	if unix.Fstatfs(int(d.self.Fd()), &st) != nil {
		return 0
	}
	switch uint32(st.Type) { //nolint:gosec // magic numbers have 32 bits
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC,
		unix.F2FS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, zfsMagic, bcachefsMagic:
	default:
		return 0
	}
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) != nil {
		return 0
	}
	return clock(now.Nano())
}

// These constants are missing in package unix.
const (
	zfsMagic      = 0x2fc12fc1
	bcachefsMagic = 0xca451a4e
)
