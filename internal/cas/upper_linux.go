package cas

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// isWhiteout reports whether an entry of an upper directory says that the path is removed.
func isWhiteout(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0
}

// isOpaque reports whether a directory of an upper one hides what is below it.
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
