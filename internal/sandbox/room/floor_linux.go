package room

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	readAccess  = unix.LANDLOCK_ACCESS_FS_READ_FILE
	writeFile   = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	writeAccess = writeFile | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	// neverAccess is never granted: a device node gives access around the file system.
	neverAccess = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
)

// floorDevices are the devices that processes without a room write to.
var floorDevices = []string{
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx",
	"/dev/pts", "/dev/shm", "/dev/mqueue",
}

// Landlock returns the version of the kernel's Landlock; zero: not available or forbidden.
func Landlock() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// apply restricts the calling thread and its descendants. root: the argv runs as root.
func (f *Floor) apply(root bool) error {
	if f == nil {
		return nil
	}
	if err := refuse(foreignLimits); err != nil {
		return err
	}
	version := Landlock()
	if version < FloorVersion {
		return nil
	}
	var r ruleset
	if !f.Mounts {
		r.handled = readAccess | writeAccess | neverAccess
	}
	if version < truncateVersion {
		r.handled &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: r.handled}
	if version >= ScopeVersion {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	if attr == (unix.LandlockRulesetAttr{}) {
		return nil
	}
	if err := r.make(&attr); err != nil {
		return err
	}
	defer unix.Close(r.fd) //nolint:errcheck // the thread holds it
	if r.handled != 0 {
		if err := f.fill(&r, root); err != nil {
			return fmt.Errorf("bound what the process reads and writes: %w", err)
		}
	}
	return r.enforce()
}

// fill adds the rules.
func (f *Floor) fill(r *ruleset, root bool) error {
	hidden := make([]string, len(f.Hidden), len(f.Hidden)+1)
	for i, path := range f.Hidden {
		hidden[i] = RealPath(path)
	}
	unread := hidden
	if f.Home != "" && f.Home != "/" {
		unread = append(unread, RealPath(f.Home))
	}
	err := r.allowBut("/", unread, readAccess)
	for _, m := range f.Shown {
		access := uint64(readAccess)
		if m.Writable {
			access |= writeAccess
		}
		err = errors.Join(err, r.allowBut(RealPath(m.Source), hidden, access))
	}
	for _, path := range f.Own {
		err = errors.Join(err, r.allow(path, readAccess|writeAccess))
	}
	devices := floorDevices
	if !root { // root could change kernel settings there
		devices = append(slices.Clone(devices), "/proc")
	}
	for _, path := range devices {
		err = errors.Join(err, r.allow(path, writeAccess))
	}
	return err
}

// ruleset is a Landlock ruleset.
type ruleset struct {
	fd      int
	handled uint64
}

func (r *ruleset) make(attr *unix.LandlockRulesetAttr) error {
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr), 0) //nolint:gosec // the kernel reads the structure
	if errno != 0 {
		return fmt.Errorf("make a Landlock ruleset: %w", errno)
	}
	r.fd = int(fd)
	return nil
}

// allowBut grants access at and below a path, except to hidden paths. Landlock has no exceptions.
// So in a directory that contains a hidden path, access is granted to each other entry; entries
// that are created later have no access.
func (r *ruleset) allowBut(path string, hidden []string, access uint64) error {
	if slices.Contains(hidden, path) {
		return nil
	}
	if !slices.ContainsFunc(hidden, func(h string) bool { return within(h, path) }) {
		return r.allow(path, access)
	}
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 {
			err = errors.Join(err, r.allowBut(filepath.Join(path, e.Name()), hidden, access))
		}
	}
	return err
}

// allow grants access at and below a path, if it exists.
func (r *ruleset) allow(path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd) //nolint:errcheck // the rule holds it
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("stat %s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= readAccess | writeFile
	}
	rule := unix.LandlockPathBeneathAttr{
		Allowed_access: access & r.handled,
		Parent_fd:      int32(fd), //nolint:gosec // descriptors are small
	}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), //nolint:gosec // the kernel reads the structure
		unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("permit %s: %w", path, errno)
	}
	return nil
}

// enforce permanently restricts the calling thread and its descendants.
func (r *ruleset) enforce() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(r.fd), 0, 0); errno != 0 {
		return fmt.Errorf("apply a Landlock ruleset: %w", errno)
	}
	return nil
}
