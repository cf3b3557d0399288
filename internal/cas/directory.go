package cas

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// directory is an open directory, whose files are opened by their names. For many small files,
// os.File costs more than the files.
type directory struct {
	*os.Root
	self *os.File
	// closesRoot: closing the directory closes the root.
	closesRoot bool
}

// enter opens a directory that is open as a root already. Closing it does not close the root.
func enter(root *os.Root) (directory, error) {
	self, err := root.Open(".")
	return directory{Root: root, self: self}, err
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

// openRegular opens a file that was seen as info, and nothing else that has taken its place, and
// returns its stamp. mend lets it make the file readable by its owner.
func (d directory) openRegular(name string, info fs.FileInfo, mend bool) (f descriptor, now stamp, err error) {
	if perm := info.Mode().Perm(); mend && perm&0o400 == 0 {
		if err := d.Chmod(name, perm|0o600); err != nil {
			return -1, now, err
		}
	}
	f, err = d.open(name, os.O_RDONLY, 0)
	if errors.Is(err, syscall.ELOOP) {
		err = errChanged
	}
	if err != nil {
		return -1, now, err
	}
	now, err = f.stamp()
	if seen := stampOf(info); err == nil && (now.Device != seen.Device || now.Inode != seen.Inode) {
		err = errChanged
	}
	if err != nil {
		_ = f.Close()
		return -1, now, err
	}
	return f, now, nil
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

func (f descriptor) stat() (st syscall.Stat_t, err error) {
	_, err = retried(func() (int, error) { return 0, syscall.Fstat(int(f), &st) })
	return st, os.NewSyscallError("fstat", err)
}

func (f descriptor) stamp() (stamp, error) {
	st, err := f.stat()
	return stampFrom(&st), err
}

// Fd is the number of the descriptor.
func (f descriptor) Fd() uintptr { return uintptr(f) }

// finish gives a new file its owner and a mode that no umask changes, and returns its stamp.
func (f descriptor) finish(mode fs.FileMode, o *Owner) (stamp, error) {
	if o != nil {
		if err := syscall.Fchown(int(f), o.UID, o.GID); err != nil {
			return stamp{}, os.NewSyscallError("fchown", err)
		}
	}
	st, err := f.stat()
	if err == nil && fs.FileMode(st.Mode).Perm() != mode {
		if err = syscall.Fchmod(int(f), uint32(mode)); err == nil {
			st, err = f.stat()
		}
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
