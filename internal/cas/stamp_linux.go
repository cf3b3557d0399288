package cas

import (
	"time"

	"golang.org/x/sys/unix"
)

// stampFrom identifies a file's content as far as the kernel vouches for it: a
// program can set any time of a file but that of its last change.
func stampFrom(st *unix.Stat_t) stamp {
	return stamp{
		Device: st.Dev, Inode: st.Ino, Size: st.Size,
		Modified: unix.TimespecToNsec(st.Mtim), Changed: unix.TimespecToNsec(st.Ctim),
	}
}

// clockOf tells the time by which the kernel stamps the files of a directory: a file changed from
// now on bears at least this time. It is zero where that is not so, on file systems of other hosts,
// say.
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

// Not in package unix.
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

// awaitTick waits until a file that changes from now on bears a later time than
// the given one, in nanoseconds: a tick of the kernel's, a few milliseconds. It
// reports false if that takes too long.
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
