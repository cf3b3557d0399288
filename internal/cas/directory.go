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

// directory is an open directory, whose files are opened by their names. For many small files,
// os.File costs more than the files.
type directory struct {
	*os.Root
	self *os.File
	// closesRoot: closing the directory closes the root.
	closesRoot bool
}

// listed is what a listing shows of a file, a link or a directory.
type listed struct {
	name string
	mode fs.FileMode
	// whiteout: it is an overlay's sign that there is nothing.
	whiteout bool
	stamp
}

// look looks at what bears a name in the directory, and not at what a link leads to.
func (d directory) look(name string) (listed, error) {
	var st unix.Stat_t
	_, err := retried(func() (int, error) {
		return 0, unix.Fstatat(int(d.self.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return listed{}, &fs.PathError{Op: "lstat", Path: name, Err: err}
	}
	mode := modeOf(fs.FileMode(st.Mode))
	return listed{name, mode, overlayfs.IsWhiteout(mode, st.Rdev), stampFrom(&st)}, nil
}

// list returns what is in the directory, sorted.
func (d directory) list() ([]listed, error) {
	names, err := d.self.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	entries := make([]listed, 0, len(names))
	for _, name := range names {
		switch e, err := d.look(name); {
		case errors.Is(err, fs.ErrNotExist): // it is gone meanwhile
		case err != nil:
			return nil, err
		default:
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// modeOf is a mode as package fs has it, of the kernel's bits.
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

// enter opens a directory that is open as a root already. Closing it does not close the root.
func enter(root *os.Root) (directory, error) {
	self, err := root.Open(".")
	return directory{Root: root, self: self}, err
}

// openListed opens a directory that was listed in the root, and nothing else that has taken its
// place. mend lets it make the directory accessible to its owner.
func openListed(root *os.Root, was listed, mend bool) (directory, error) {
	if perm := was.mode.Perm(); mend && perm&0o700 != 0o700 {
		if err := root.Chmod(was.name, perm|0o700); err != nil {
			return directory{}, err
		}
	}
	d, err := openDirectory(root, was.name)
	if err != nil {
		return d, err
	}
	if _, err := descriptor(d.self.Fd()).still(was); err != nil {
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
	d, err := enter(sub)
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

// open opens a file of the directory, and nothing that a link in its place leads to. A pipe
// does not block.
func (d directory) open(name string, flags int, mode fs.FileMode) (descriptor, error) {
	fd, err := retried(func() (int, error) {
		return unix.Openat(int(d.self.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, uint32(mode))
	})
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return descriptor(fd), nil
}

// openRegular opens a file that was listed, and nothing else that has taken its place. mend lets
// it make the file readable by its owner.
func (d directory) openRegular(was listed, mend bool) (descriptor, error) {
	f, err := d.openUnchecked(was, mend)
	if err != nil {
		return -1, err
	}
	if _, err := f.still(was); err != nil {
		_ = f.Close()
		return -1, err
	}
	return f, nil
}

// openUnchecked is openRegular without the check, which is [descriptor.still]. Before it,
// nothing that is read counts.
func (d directory) openUnchecked(was listed, mend bool) (descriptor, error) {
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

// Owner is who gets what is written.
type Owner struct{ UID, GID int }

// Give gives away what is at a path; links are not followed. What is for no owner stays the
// caller's.
func (o *Owner) Give(path string) error {
	if o == nil {
		return nil
	}
	return os.Lchown(path, o.UID, o.GID)
}

// giveIn is Give below a directory.
func (o *Owner) giveIn(root *os.Root, path string) error {
	if o == nil {
		return nil
	}
	return root.Lchown(path, o.UID, o.GID)
}

// openFile is a [descriptor] or an [os.File].
type openFile interface {
	io.Writer
	Fd() uintptr
}

// descriptor is an open file.
type descriptor int

// Read implements [io.Reader].
func (f descriptor) Read(p []byte) (int, error) {
	n, err := retried(func() (int, error) { return syscall.Read(int(f), p) })
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
		more, err := retried(func() (int, error) { return syscall.Write(int(f), p[n:]) })
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
	_, err = retried(func() (int, error) { return 0, unix.Fstat(int(f), &st) })
	return st, os.NewSyscallError("fstat", err)
}

// still returns the stamp of an open file or directory that was listed. The error is errChanged
// if it is another one, or of another kind: a new file often gets the inode of one that was removed.
func (f descriptor) still(was listed) (stamp, error) {
	st, err := f.stat()
	now := stampFrom(&st)
	if err == nil && (!now.of(was.stamp) || modeOf(fs.FileMode(st.Mode)).Type() != was.mode.Type()) {
		err = errChanged
	}
	return now, err
}

// Fd is the number of the descriptor.
func (f descriptor) Fd() uintptr { return uintptr(f) }

// newFiles makes files in one directory. It is for one goroutine at a time.
type newFiles struct {
	directory
	// owner is who gets the files; nil: the caller.
	owner *Owner
	// stamped: the stamps of the files are asked for.
	stamped bool
	// exact are the modes that files of the directory get without a change: neither the umask nor
	// a list of the directory takes bits away.
	exact []fs.FileMode
}

// create makes a new file.
func (d *newFiles) create(name string, mode fs.FileMode) (descriptor, error) {
	return d.open(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
}

// finish gives a file that was made its owner and its mode, and returns its stamp if that is
// asked for.
func (d *newFiles) finish(f descriptor, mode fs.FileMode) (stamp, error) {
	if o := d.owner; o != nil {
		if err := syscall.Fchown(int(f), o.UID, o.GID); err != nil {
			return stamp{}, os.NewSyscallError("fchown", err)
		}
	}
	if !d.stamped && slices.Contains(d.exact, mode) {
		return stamp{}, nil
	}
	st, err := f.stat()
	if err == nil && fs.FileMode(st.Mode).Perm() != mode {
		if err = syscall.Fchmod(int(f), uint32(mode)); err == nil {
			st, err = f.stat()
		}
	} else if err == nil {
		d.exact = append(d.exact, mode)
	}
	return stampFrom(&st), err
}

// retried calls do until no signal interrupts it.
func retried(do func() (int, error)) (int, error) {
	for {
		if n, err := do(); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}
