package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/platform/failpoint"
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
	return Sync(filepath.Dir(path))
}

// temp makes a temporary file on the file system of the directory.
func (d *Directory) temp() (*os.File, error) {
	dir := filepath.Join(d.root, tempDir)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, err
	}
	return os.CreateTemp(dir, "put-")
}

// install renames a temporary file to path. A directory that it has to make is durable,
// because a later flush of the file does not flush its parent directories.
func (d *Directory) install(temp, path string) error {
	err := os.Rename(temp, path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.makeDir(filepath.Dir(path)); err != nil {
			return err
		}
		err = os.Rename(temp, path)
	}
	return err
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
	return Sync(filepath.Dir(path))
}

// writeAll writes data to f, flushes it if that is wanted, and closes it.
func writeAll(f *os.File, data []byte, flush bool) (err error) {
	defer closing(f, &err)
	if _, err := f.Write(data); err != nil || !flush {
		return err
	}
	return f.Sync()
}

// Sync makes the content of a file, or the entries of a directory, survive a power loss.
func Sync(path string) (err error) {
	d, err := os.Open(path)
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
