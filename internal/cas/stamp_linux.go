package cas

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stampFrom identifies a file's content as far as the kernel vouches for it: a
// program can set any time of a file but that of its last change.
func stampFrom(st *syscall.Stat_t) stamp {
	return stamp{
		Device: st.Dev, Inode: st.Ino, Size: st.Size,
		Modified: syscall.TimespecToNsec(st.Mtim), Changed: syscall.TimespecToNsec(st.Ctim),
	}
}

// fileClock tells the time by which the kernel stamps the files in dir, in
// nanoseconds: a file changed from now on bears at least this time. ok is false
// where that is not so, on file systems of other hosts, say.
func fileClock(dir *os.Root) (now int64, ok bool) {
	f, err := dir.Open(".")
	if err != nil {
		return 0, false
	}
	defer f.Close() //nolint:errcheck // only read
	var st unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &st) != nil {
		return 0, false
	}
	switch uint32(st.Type) { //nolint:gosec // magic numbers have 32 bits
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC,
		unix.F2FS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, zfsMagic, bcachefsMagic:
	default:
		return 0, false
	}
	return coarseTime()
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
