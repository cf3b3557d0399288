package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/failpoint"
)

// WriteFile replaces the file at path by data, whole or not at all, making its
// directory if need be.
func (d *Directory) WriteFile(path string, data []byte, durability Durability) error {
	temp, err := d.WriteTemp(path, data, durability)
	if err != nil {
		return err
	}
	return d.InstallTemp(temp, path, durability)
}

// InstallTemp installs a temporary file, or removes it.
func (d *Directory) InstallTemp(temp *os.File, path string, durability Durability) error {
	err := d.Install(temp.Name(), path, durability)
	if err != nil {
		_ = os.Remove(temp.Name())
	}
	return err
}

// WriteTemp writes data to a temporary file, which it closes, to be installed at path. On
// a full disk it uses the reserve.
func (d *Directory) WriteTemp(path string, data []byte, durability Durability) (f *os.File, err error) {
	err = d.retry(func() error {
		f, err = d.WriteTempOnce(path, data, durability)
		return err
	})
	return f, err
}

// WriteTempOnce is as WriteTemp, without the reserve.
func (d *Directory) WriteTempOnce(path string, data []byte, durability Durability) (*os.File, error) {
	f, err := d.Temp()
	if err != nil {
		return nil, err
	}
	failpoint.Torn(path, f, data)
	if err := WriteAll(f, data, durability == Durable); err != nil {
		_ = os.Remove(f.Name())
		return nil, err
	}
	return f, nil
}

// Temp makes a temporary file in the file system of the directory.
func (d *Directory) Temp() (*os.File, error) {
	f, err := os.CreateTemp(filepath.Join(d.root, "tmp"), "put-*")
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.MakeDir(filepath.Join(d.root, "tmp"), UntilPowerLoss); err != nil {
			return nil, err
		}
		f, err = os.CreateTemp(filepath.Join(d.root, "tmp"), "put-*")
	}
	return f, err
}

// Install renames a temporary file to path. A directory that it has to make is
// durable in any case: whoever settles the file looks no further up than that.
func (d *Directory) Install(temp, path string, durability Durability) error {
	err := os.Rename(temp, path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.MakeDir(filepath.Dir(path), Durable); err != nil {
			return err
		}
		err = os.Rename(temp, path)
	}
	if err != nil || durability != Durable {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// MakeDir makes a directory and its parents below the root.
func (d *Directory) MakeDir(path string, durability Durability) error {
	err := os.Mkdir(path, dirMode)
	if errors.Is(err, fs.ErrNotExist) && path != d.root {
		if err := d.MakeDir(filepath.Dir(path), durability); err != nil {
			return err
		}
		err = os.Mkdir(path, dirMode)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err != nil || durability != Durable {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// WriteAll writes data and closes f, which it has flushed to the disk if sync.
func WriteAll(f *os.File, data []byte, sync bool) (err error) {
	defer closing(f, &err)
	if _, err := f.Write(data); err != nil {
		return err
	}
	if sync {
		return f.Sync()
	}
	return nil
}

// SyncDir makes the names in a directory outlive a power loss.
func SyncDir(path string) (err error) {
	d, err := os.Open(path)
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
