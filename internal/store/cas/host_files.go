package cas

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// dirItem is the metadata of a directory entry.
type dirItem struct {
	name string
	mode fs.FileMode
	// whiteout: the entry is the whiteout of an overlay, which marks a removed name.
	whiteout bool
	size     int64
	id       fileID
}

// fileID identifies a file of this host.
type fileID struct{ device, inode uint64 }

func itemOf(info fs.FileInfo) dirItem {
	st, _ := info.Sys().(*syscall.Stat_t)
	return dirItem{info.Name(), info.Mode(), info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0, st.Size, fileID{
		uint64(st.Dev), //nolint:unconvert // only compared; macOS has another type
		st.Ino,
	}}
}

// list returns the entries of a directory, sorted by name.
func list(dir *os.Root) ([]dirItem, error) {
	self, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer self.Close() //nolint:errcheck // only read
	names, err := self.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	entries := make([]dirItem, 0, len(names))
	for _, name := range names {
		switch info, err := dir.Lstat(name); {
		case errors.Is(err, fs.ErrNotExist): // removed since the listing
		case err != nil:
			return nil, err
		default:
			entries = append(entries, itemOf(info))
		}
	}
	return entries, nil
}

// openTop opens the top directory of a tree, and makes it accessible to its owner. It does not
// follow a link.
func openTop(dir string) (_ *os.Root, err error) {
	above, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	defer closing(above, &err)
	top, err := above.Lstat(filepath.Base(dir))
	if err != nil {
		return nil, err
	}
	if !top.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	return openListed(above, itemOf(top), true)
}

// openListed opens a directory that was listed in another one. The error is errChanged if it was
// replaced since. mend allows it to make the directory accessible to its owner.
func openListed(in *os.Root, was dirItem, mend bool) (*os.Root, error) {
	if perm := was.mode.Perm(); mend && perm&0o700 != 0o700 {
		if err := in.Chmod(was.name, perm|0o700); err != nil {
			return nil, err
		}
	}
	d, err := in.OpenRoot(was.name)
	if err != nil {
		return nil, err
	}
	info, err := d.Stat(".")
	if err == nil && itemOf(info).id != was.id {
		err = errChanged
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// openFile opens a file that was listed in a directory, and does not block on a pipe. The caller must call [checkSame] before
// it uses what it has read: the file may have been replaced since, also by a link. mend allows it to make the file readable by
// its owner.
func openFile(in *os.Root, was dirItem, mend bool) (*os.File, error) {
	if perm := was.mode.Perm(); mend && perm&0o400 == 0 {
		if err := in.Chmod(was.name, perm|0o600); err != nil {
			return nil, err
		}
	}
	return in.OpenFile(was.name, os.O_RDONLY|unix.O_NONBLOCK, 0)
}

// checkSame returns errChanged if an open file is not the one that was listed, or of another kind: a new file often gets the
// inode of a removed one.
func checkSame(f *os.File, was dirItem) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if now := itemOf(info); now.id != was.id || now.mode.Type() != was.mode.Type() {
		return errChanged
	}
	return nil
}

// isOpaque reports whether a directory of the upper layer of an overlay hides what is below it.
func isOpaque(dir *os.Root) (bool, error) {
	f, err := dir.Open(".")
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // only read
	var value [2]byte
	n, err := unix.Fgetxattr(int(f.Fd()), "user.overlay.opaque", value[:])
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ERANGE): // none, or a longer one
		return false, nil
	case err != nil:
		return false, err
	}
	return string(value[:n]) == "y", nil
}

// Owner is the user and group that own written files. A nil Owner leaves them to the caller's
// user.
type Owner struct{ UID, GID int }

// chown changes the owner of a path below a directory. It does not follow links.
func (o *Owner) chown(root *os.Root, path string) error {
	if o == nil {
		return nil
	}
	return root.Lchown(path, o.UID, o.GID)
}
