package storage

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/platform/diskspace"
)

const (
	// reserveFile takes up disk space that is released for small writes when the disk is full.
	// Sessions can then record their results, end, and free their disk space.
	reserveFile        = ".reserve"
	reserveBytes int64 = 4 << 20
	// reservePart limits the reserve to this fraction of the free space at which a disk counts as
	// full. So a small disk still counts as full after the reserve is released.
	reservePart = 4
)

// KeepReserve reserves space for small writes on a full disk. A worker calls it each time it renews its offer, because such a
// write uses up the reserve. It does nothing if the disk has no space for it.
func (d *Directory) KeepReserve() (err error) {
	space, err := diskspace.Of(d.root)
	if err != nil {
		return err
	}
	path, size := filepath.Join(d.root, reserveFile), min(reserveBytes, space.LowBytes/reservePart)
	if info, err := os.Lstat(path); err == nil && info.Size() == size || space.Bytes < space.LowBytes+size {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	defer closing(f, &err)
	if _, err = io.CopyN(f, rand.Reader, size); err != nil { // random, so that no file system compresses it
		_ = os.Remove(path)
	}
	return err
}

// withReserve calls write. If the disk is full, it frees the reserve and calls write again.
func (d *Directory) withReserve(write func() error) error {
	err := write()
	if diskspace.IsFull(err) {
		if gone := os.Remove(filepath.Join(d.root, reserveFile)); gone == nil || errors.Is(gone, fs.ErrNotExist) {
			err = write()
		}
	}
	return err
}

// FreeReserve frees the reserve, and reports whether there was one.
func (d *Directory) FreeReserve() bool { return os.Remove(filepath.Join(d.root, reserveFile)) == nil }
