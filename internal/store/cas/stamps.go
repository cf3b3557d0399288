package cas

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// stamp identifies one state of a file's content without reading it.
type stamp struct {
	Device, Inode uint64
	// Size is in bytes; the times are in nanoseconds.
	Size, Modified, Changed int64
}

// sameFile reports whether both stamps are of the same file.
func (s stamp) sameFile(o stamp) bool { return s.Device == o.Device && s.Inode == o.Inode }

// clock is a time of the kernel's clock for file times, in nanoseconds; zero: unknown.
type clock int64

// isAfter reports whether the clock is later than the last change of the stamp. Then the stamp
// identifies the content: a change after the clock was read gives the file a later time.
func (c clock) isAfter(s stamp) bool { return c != 0 && s.Changed != 0 && s.Changed < int64(c) }

// stampFrom returns the stamp of a file. It includes the change time, because programs can set
// all other times.
func stampFrom(st *syscall.Stat_t) stamp {
	return stamp{
		Device: st.Dev, Inode: st.Ino, Size: st.Size,
		Modified: st.Mtim.Nano(), Changed: st.Ctim.Nano(),
	}
}

// clockOf returns the kernel's clock for the files of a directory: a file that is changed from
// now on gets at least this time. It is zero on file systems without this guarantee, such as
// network file systems.
func clockOf(dir string) clock {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
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

// stamps are the files of a directory as the last snapshot found them, so that the next one reads
// only those that have changed. They are a cache.
type stamps struct {
	// Manifest is the tree of that snapshot. While it is in the store, the files' contents are, too.
	Manifest spec.Digest
	Files    map[string]stamped
}

// stamped is a file's digest and the stamp for which it holds.
type stamped struct {
	Digest spec.Digest
	Stamp  stamp
}

// digest returns the digest of a file; ok is false if its stamp has changed.
func (s stamps) digest(p string, now dirItem) (spec.Digest, bool) {
	f, ok := s.Files[p]
	if !ok || f.Stamp != now.stamp {
		return "", false
	}
	return f.Digest, true
}

func (s *Store) stampsFile(dir string) string {
	return filepath.Join(s.options.StampsDir, string(DigestOf([]byte(dir))))
}

// loadStamps returns the stamps of a directory, if they are intact and usable with these blobs.
func (s *Store) loadStamps(dir string) stamps {
	if s.options.StampsDir == "" {
		return stamps{}
	}
	data, err := os.ReadFile(s.stampsFile(dir))
	if err != nil {
		return stamps{}
	}
	known := decodeStamps(data)
	// If the manifest was pruned, its contents may be missing. UseBlob marks it as used, so that
	// it and its contents cannot be pruned now.
	if known.Manifest == "" || s.backend.UseBlob(known.Manifest) != nil {
		return stamps{}
	}
	return known
}

// saveStamps writes the stamps of a directory. Errors are ignored: without stamps everything is read.
func (s *Store) saveStamps(dir string, now stamps) {
	if s.options.StampsDir == "" {
		return
	}
	// Do not create parent directories: if the store is not mounted, they would fill its mount
	// point.
	if err := os.Mkdir(s.options.StampsDir, dirMode); err == nil || os.IsExist(err) {
		_ = os.WriteFile(s.stampsFile(dir), now.encode(), fileMode)
	}
}

// dropStamps removes all stamps, after a blob was found missing and before blobs are removed. Otherwise they could prevent
// that it is stored again.
func (s *Store) dropStamps() {
	if s.options.StampsDir != "" {
		_ = os.RemoveAll(s.options.StampsDir)
	}
}

// encode encodes stamps, after their digest.
func (s stamps) encode() []byte {
	var b bytes.Buffer
	_ = gob.NewEncoder(&b).Encode(s) // a buffer takes everything
	return append([]byte(DigestOf(b.Bytes())), b.Bytes()...)
}

// decodeStamps decodes stamps; they are empty if the data is not complete and intact.
func decodeStamps(data []byte) (s stamps) {
	n := min(len(data), 2*sha256.Size)
	if digest, body := data[:n], data[n:]; string(DigestOf(body)) != string(digest) || gob.NewDecoder(bytes.NewReader(body)).Decode(&s) != nil {
		return stamps{}
	}
	return s
}
