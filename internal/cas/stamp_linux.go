package cas

import (
	"time"

	"golang.org/x/sys/unix"
)

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
	now, _ := coarseTime()
	return clock(now)
}

// These constants are missing in package unix.
const (
	zfsMagic      = 0x2fc12fc1
	bcachefsMagic = 0xca451a4e
)

func coarseTime() (int64, bool) {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &ts) != nil {
		return 0, false
	}
	return ts.Nano(), true
}

// awaitTick waits until a file that changes from now on gets a time later than after, in
// nanoseconds: a tick of the kernel's clock, a few milliseconds. It returns false if that takes
// too long.
func awaitTick(after int64) bool {
	for range 50 {
		now, ok := coarseTime()
		if !ok {
			return false
		}
		if now > after {
			return true
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // there is no event to wait for: the kernel's clock has to tick
	}
	return false
}
