package cas

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/overlayfs"
)

// directory is an open directory that opens its files by name. For many small files, os.File
// would cost more than reading the files.
type directory struct {
	*os.Root
	self *os.File
	// closesRoot: Close closes the root, too.
	closesRoot bool
}

// dirItem is the metadata of a directory entry.
type dirItem struct {
	name string
	mode fs.FileMode
	// whiteout: the entry is the whiteout of an overlay, which marks a removed name.
	whiteout bool
	stamp
}

// lstat returns the metadata of a name in the directory. It does not follow links.
func (d directory) lstat(name string) (dirItem, error) {
	var st unix.Stat_t
	_, err := retryEINTR(func() (int, error) {
		return 0, unix.Fstatat(int(d.self.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return dirItem{}, &fs.PathError{Op: "lstat", Path: name, Err: err}
	}
	mode := modeOf(fs.FileMode(st.Mode))
	return dirItem{name, mode, overlayfs.IsWhiteout(mode, st.Rdev), stampFrom(&st)}, nil
}

// list returns the entries of the directory, sorted by name.
func (d directory) list() ([]dirItem, error) {
	names, err := d.self.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	entries := make([]dirItem, 0, len(names))
	for _, name := range names {
		switch e, err := d.lstat(name); {
		case errors.Is(err, fs.ErrNotExist): // removed since the listing
		case err != nil:
			return nil, err
		default:
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// modeOf converts the kernel's mode bits to an [fs.FileMode].
func modeOf(bits fs.FileMode) fs.FileMode {
	mode := bits & 0o777
	if bits&unix.S_ISUID != 0 {
		mode |= fs.ModeSetuid
	}
	if bits&unix.S_ISGID != 0 {
		mode |= fs.ModeSetgid
	}
	if bits&unix.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	switch uint32(bits) & unix.S_IFMT {
	case unix.S_IFREG:
		return mode
	case unix.S_IFDIR:
		return mode | fs.ModeDir
	case unix.S_IFLNK:
		return mode | fs.ModeSymlink
	case unix.S_IFIFO:
		return mode | fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return mode | fs.ModeSocket
	case unix.S_IFBLK:
		return mode | fs.ModeDevice
	case unix.S_IFCHR:
		return mode | fs.ModeDevice | fs.ModeCharDevice
	}
	return mode | fs.ModeIrregular
}

// openSelf opens the directory of an open root. Closing it does not close the root.
func openSelf(root *os.Root) (directory, error) {
	self, err := root.Open(".")
	return directory{Root: root, self: self}, err
}

// openListed opens a directory that was listed in the root. The error is errChanged if it was
// replaced since. fixMode allows it to make the directory accessible to its owner.
func openListed(root *os.Root, was dirItem, mend bool) (directory, error) {
	if perm := was.mode.Perm(); mend && perm&0o700 != 0o700 {
		if err := root.Chmod(was.name, perm|0o700); err != nil {
			return directory{}, err
		}
	}
	d, err := openDirectory(root, was.name)
	if err != nil {
		return d, err
	}
	if _, err := descriptor(d.self.Fd()).checkSame(was); err != nil {
		return directory{}, errors.Join(err, d.Close())
	}
	return d, nil
}

// openDirectory opens a directory below a root.
func openDirectory(root *os.Root, at string) (directory, error) {
	sub, err := root.OpenRoot(at)
	if err != nil {
		return directory{}, err
	}
	d, err := openSelf(sub)
	if err != nil {
		return directory{}, errors.Join(err, sub.Close())
	}
	d.closesRoot = true
	return d, nil
}

// Close closes the directory.
func (d directory) Close() error {
	err := d.self.Close()
	if d.closesRoot {
		err = errors.Join(err, d.Root.Close())
	}
	return err
}

// open opens a file of the directory. It does not follow links, and does not block on a pipe.
func (d directory) open(name string, flags int, mode fs.FileMode) (descriptor, error) {
	fd, err := retryEINTR(func() (int, error) {
		return unix.Openat(int(d.self.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, uint32(mode))
	})
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return descriptor(fd), nil
}

// openRegular opens a file that was listed. The error is errChanged if it was replaced since.
// fixMode allows it to make the file readable by its owner.
func (d directory) openRegular(was dirItem, mend bool) (descriptor, error) {
	f, err := d.openUnchecked(was, mend)
	if err != nil {
		return -1, err
	}
	if _, err := f.checkSame(was); err != nil {
		_ = f.Close()
		return -1, err
	}
	return f, nil
}

// openUnchecked is openRegular without the check for a replaced file. The caller must call
// [descriptor.checkSame] before it uses what it has read.
func (d directory) openUnchecked(was dirItem, mend bool) (descriptor, error) {
	if perm := was.mode.Perm(); mend && perm&0o400 == 0 {
		if err := d.Chmod(was.name, perm|0o600); err != nil {
			return -1, err
		}
	}
	f, err := d.open(was.name, os.O_RDONLY, 0)
	if errors.Is(err, syscall.ELOOP) {
		err = errChanged
	}
	return f, err
}

// Owner is the user and group that own written files. A nil Owner leaves them to the caller's
// user.
type Owner struct{ UID, GID int }

// Chown changes the owner of a path. It does not follow links.
func (o *Owner) Chown(path string) error {
	if o == nil {
		return nil
	}
	return os.Lchown(path, o.UID, o.GID)
}

// chownIn is Chown for a path below a directory.
func (o *Owner) chownIn(root *os.Root, path string) error {
	if o == nil {
		return nil
	}
	return root.Lchown(path, o.UID, o.GID)
}

// openFile is implemented by [descriptor] and [os.File].
type openFile interface {
	io.Writer
	Fd() uintptr
}

// descriptor is the file descriptor of an open file.
type descriptor int

// Read implements [io.Reader].
func (f descriptor) Read(p []byte) (int, error) {
	n, err := retryEINTR(func() (int, error) { return syscall.Read(int(f), p) })
	if err != nil {
		return 0, os.NewSyscallError("read", err)
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Write implements [io.Writer].
func (f descriptor) Write(p []byte) (n int, err error) {
	for n < len(p) {
		more, err := retryEINTR(func() (int, error) { return syscall.Write(int(f), p[n:]) })
		if err != nil {
			return n, os.NewSyscallError("write", err)
		}
		n += more
	}
	return n, nil
}

// Close closes the file.
func (f descriptor) Close() error { return os.NewSyscallError("close", syscall.Close(int(f))) }

func (f descriptor) stat() (st unix.Stat_t, err error) {
	_, err = retryEINTR(func() (int, error) { return 0, unix.Fstat(int(f), &st) })
	return st, os.NewSyscallError("fstat", err)
}

// checkSame returns the stamp of an open file or directory. The error is errChanged if it is not
// the one that was listed, or of another kind: a new file often gets the inode of a removed one.
func (f descriptor) checkSame(was dirItem) (stamp, error) {
	st, err := f.stat()
	now := stampFrom(&st)
	if err == nil && (!now.sameFile(was.stamp) || modeOf(fs.FileMode(st.Mode)).Type() != was.mode.Type()) {
		err = errChanged
	}
	return now, err
}

// Fd returns the file descriptor.
func (f descriptor) Fd() uintptr { return uintptr(f) }

// fileCreator makes files in one directory. It must not be used concurrently.
type fileCreator struct {
	directory
	// owner gets the files; nil: the caller.
	owner *Owner
	// exactModes are modes that new files in the directory get unchanged: neither the umask nor
	// an access control list clears bits.
	exactModes []fs.FileMode
}

// create makes a new file.
func (d *fileCreator) create(name string, mode fs.FileMode) (descriptor, error) {
	return d.open(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
}

// finish sets the owner and the mode of a new file.
func (d *fileCreator) finish(f descriptor, mode fs.FileMode) error {
	if o := d.owner; o != nil {
		if err := syscall.Fchown(int(f), o.UID, o.GID); err != nil {
			return os.NewSyscallError("fchown", err)
		}
	}
	if slices.Contains(d.exactModes, mode) {
		return nil
	}
	st, err := f.stat()
	if err == nil && fs.FileMode(st.Mode).Perm() != mode {
		return os.NewSyscallError("fchmod", syscall.Fchmod(int(f), uint32(mode)))
	}
	if err == nil {
		d.exactModes = append(d.exactModes, mode)
	}
	return err
}

// retryEINTR repeats do as long as a signal interrupts it.
func retryEINTR(do func() (int, error)) (int, error) {
	for {
		if n, err := do(); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}
