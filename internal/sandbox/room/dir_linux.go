package room

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// dir is an open directory of the room's root. Opening and creating below it cannot leave the
// room: an earlier attempt may have left links at the paths of mounts.
type dir int

// open opens a path below the directory.
func (d dir) open(name string, flags uint64) (fd int, err error) {
	fd, err = unix.Openat2(int(d), name, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH})
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", name, err)
	}
	return fd, nil
}

// at opens a directory or file below the directory as a mount point, and creates it if it does
// not exist.
func (d dir) at(name string, isDir bool) (fd int, err error) {
	if parent := filepath.Dir(name); parent != "." {
		above, err := d.at(parent, true)
		if err != nil {
			return -1, err
		}
		defer unix.Close(above) //nolint:errcheck // only a place
		d, name = dir(above), filepath.Base(name)
	}
	flags := uint64(unix.O_PATH)
	if isDir {
		flags |= unix.O_DIRECTORY
		err = unix.Mkdirat(int(d), name, 0o755)
	} else {
		err = unix.Mknodat(int(d), name, unix.S_IFREG|0o600, 0)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return -1, fmt.Errorf("make %s: %w", name, err)
	}
	return d.open(name, flags)
}

// mount mounts a new file system on a directory below the directory.
func (d dir) mount(kind, name string, flags uintptr, options string) error {
	at, err := d.at(name, true)
	if err == nil {
		defer unix.Close(at) //nolint:errcheck // only a place
		err = unix.Mount(kind, descriptorPath(at), kind, flags, options)
	}
	if err != nil {
		return fmt.Errorf("mount %s as /%s: %w", kind, name, err)
	}
	return nil
}

// write writes a file below the directory. flags says whether to create it.
func (d dir) write(name, text string, flags uint64) error {
	how := unix.OpenHow{Flags: flags | unix.O_WRONLY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH}
	if flags&unix.O_CREAT != 0 {
		how.Mode = 0o444
	}
	fd, err := unix.Openat2(int(d), name, &how)
	if err == nil {
		_, err = unix.Write(fd, []byte(text))
		err = errors.Join(err, unix.Close(fd))
	}
	if err != nil {
		return fmt.Errorf("write %s in the room: %w", name, err)
	}
	return nil
}

// overwrite writes to a file of /proc.
func overwrite(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }

// descriptorPath returns a path of an open file.
func descriptorPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
