package cas

import (
	"os"

	"golang.org/x/sys/unix"
)

// flushFileSystem makes the named files, and all that was written to their file system
// before, outlive a power loss.
func flushFileSystem(root string, _ []string) (err error) {
	d, err := os.Open(root)
	if err != nil {
		return err
	}
	defer closing(d, &err)
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return &os.PathError{Op: "syncfs", Path: root, Err: err}
	}
	return nil
}

// clone makes dst share src's blocks. It reports false where the file system
// cannot do that.
func clone(dst, src *os.File) bool {
	return unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) == nil
}
