package cas

import "golang.org/x/sys/unix"

// clone makes dst share src's blocks. It returns false if the file system cannot do that.
func clone(dst, src uintptr) bool {
	return unix.IoctlFileClone(int(dst), int(src)) == nil
}
