package storage

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/maestro-hive/maestro/internal/failpoint"
)

const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600

	tempDir = "tmp"
)

// writeFile replaces the file at path atomically and durably. It makes the file's directory if it does not exist. The file is
// flushed before it is renamed, so that a failed flush leaves no file.
func (d *Directory) writeFile(path string, data []byte) error {
	f, err := d.temp()
	if err != nil {
		return err
	}
	failpoint.Torn(path, f, data)
	err = writeAll(f, data, true)
	if err == nil {
		err = d.install(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	return syncDir(filepath.Dir(path))
}

// temp makes a temporary file on the file system of the directory.
func (d *Directory) temp() (*os.File, error) {
	dir := filepath.Join(d.root, tempDir)
	f, err := createFile(filepath.Join(dir, "put-"+rand.Text()))
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, dirMode); err != nil {
			return nil, err
		}
		f, err = createFile(filepath.Join(dir, "put-"+rand.Text()))
	}
	return f, err
}

// createFile creates a regular file for writing. O_NONBLOCK has no effect on a regular file, but
// saves four system calls: without it, package os tries to make the file non-blocking.
func createFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NONBLOCK, fileMode)
}

// openFile opens a regular file or a directory for reading.
func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// install renames a temporary file to path. A directory that it has to make is durable,
// because a later flush of the file does not flush its parent directories.
func (d *Directory) install(temp, path string) error {
	err := rename(temp, path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.makeDir(filepath.Dir(path)); err != nil {
			return err
		}
		err = rename(temp, path)
	}
	return err
}

// rename is [os.Rename] without the check whether the target is a directory. It never is.
func rename(from, to string) error {
	for {
		switch err := syscall.Rename(from, to); {
		case err == nil:
			return nil
		case err != syscall.EINTR:
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
		}
	}
}

// makeDir makes a directory and its parents below the root durably.
func (d *Directory) makeDir(path string) error {
	err := os.Mkdir(path, dirMode)
	if errors.Is(err, fs.ErrNotExist) && path != d.root {
		if err := d.makeDir(filepath.Dir(path)); err != nil {
			return err
		}
		err = os.Mkdir(path, dirMode)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// writeAll writes data to f, flushes it if that is wanted, and closes it.
func writeAll(f *os.File, data []byte, flush bool) (err error) {
	defer closing(f, &err)
	if _, err := f.Write(data); err != nil || !flush {
		return err
	}
	return f.Sync()
}

// syncDir makes the entries of a directory survive a power loss.
func syncDir(path string) (err error) {
	d, err := openFile(path)
	if err != nil {
		return err
	}
	defer closing(d, &err)
	return d.Sync()
}

// closing closes c and stores its error in err if err is nil.
func closing(c io.Closer, err *error) {
	if cerr := c.Close(); *err == nil && cerr != nil {
		*err = cerr
	}
}
