// Package overlayfs reads the marks in the upper directory of an overlay: whiteouts and
// opaque directories, which hide entries of the directories below it.
package overlayfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// opaque is the attribute of a directory that hides what is below it.
const opaque = "user.overlay.opaque"

// IsWhiteout reports whether an entry marks its path as removed. device is the device number of
// a special file.
func IsWhiteout[Device int32 | uint64](mode fs.FileMode, device Device) bool {
	return mode&fs.ModeCharDevice != 0 && device == 0
}

// IsOpaque reports whether a directory hides what is below it.
func IsOpaque(dir *os.File) (bool, error) {
	var value [2]byte
	n, err := unix.Fgetxattr(int(dir.Fd()), opaque, value[:])
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ERANGE): // none, or a longer one
		return false, nil
	case err != nil:
		return false, err
	}
	return string(value[:n]) == "y", nil
}
