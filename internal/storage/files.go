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

// IsFull tells of an error that a disk, or its owner's part of it, has no room.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// WriteFile replaces the file at path by data, whole or not at all, making its
// directory if need be.
func (d *Directory) WriteFile(path string, data []byte, durability Durability) error {
	temp, err := d.writeTemp(path, data, durability)
	if err != nil {
		return err
	}
	return d.installTemp(temp, path, durability)
}

// installTemp installs a temporary file, or removes it.
func (d *Directory) installTemp(temp, path string, durability Durability) error {
	err := d.install(temp, path, durability)
	if err != nil {
		_ = os.Remove(temp)
	}
	return err
}

// writeTemp writes data to a temporary file, to be installed at path, and returns its
// path. On a full disk it uses the reserve.
func (d *Directory) writeTemp(path string, data []byte, durability Durability) (temp string, err error) {
	err = d.withReserve(func() error {
		temp, err = d.writeTempOnce(path, data, durability)
		return err
	})
	return temp, err
}

// writeTempOnce is as writeTemp, without the reserve.
func (d *Directory) writeTempOnce(path string, data []byte, durability Durability) (temp string, err error) {
	f, err := d.temp()
	if err != nil {
		return "", err
	}
	failpoint.Torn(path, f, data)
	if err := writeAll(f, data, d.limited(durability)); err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// temp makes a temporary file in the file system of the directory.
func (d *Directory) temp() (*os.File, error) {
	dir := filepath.Join(d.root, tempDir)
	f, err := createFile(filepath.Join(dir, "put-"+rand.Text()))
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.makeDir(dir, UntilPowerLoss); err != nil {
			return nil, err
		}
		f, err = createFile(filepath.Join(dir, "put-"+rand.Text()))
	}
	return f, err
}

// createFile makes a regular file for writing. For one, O_NONBLOCK has no effect; without it,
// package os sets it in vain, with four system calls.
func createFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NONBLOCK, fileMode)
}

// openFile opens a regular file for reading, or a directory.
func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// install renames a temporary file to path. A directory that it has to make is
// durable in any case: whoever settles the file looks no further up than that.
func (d *Directory) install(temp, path string, durability Durability) error {
	err := rename(temp, path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.makeDir(filepath.Dir(path), Durable); err != nil {
			return err
		}
		err = rename(temp, path)
	}
	if err != nil || d.limited(durability) != Durable {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// rename is [os.Rename] without a look at what is replaced, which is never a directory.
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

// makeDir makes a directory and its parents below the root.
func (d *Directory) makeDir(path string, durability Durability) error {
	err := os.Mkdir(path, dirMode)
	if errors.Is(err, fs.ErrNotExist) && path != d.root {
		if err := d.makeDir(filepath.Dir(path), durability); err != nil {
			return err
		}
		err = os.Mkdir(path, dirMode)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err != nil || d.limited(durability) != Durable {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// limited is the durability that a write has here of the one that was asked for.
func (d *Directory) limited(durability Durability) Durability {
	return durability && !Durability(d.unflushed)
}

// writeAll writes data, and closes f.
func writeAll(f *os.File, data []byte, durability Durability) (err error) {
	defer closing(f, &err)
	if _, err := f.Write(data); err != nil || durability != Durable {
		return err
	}
	return f.Sync()
}

// syncDir makes the names in a directory outlive a power loss.
func syncDir(path string) (err error) {
	d, err := openFile(path)
	if err != nil {
		return err
	}
	defer closing(d, &err)
	return d.Sync()
}

// closing closes c and keeps the first error.
func closing(c io.Closer, err *error) {
	if cerr := c.Close(); *err == nil && cerr != nil {
		*err = cerr
	}
}
