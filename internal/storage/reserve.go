package storage

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/diskspace"
)

const (
	// reserveFile takes up room that the directory gives itself when its disk is full: what
	// is to be recorded is small, and lets sessions end and give back what they take up.
	reserveFile        = ".reserve"
	reserveBytes int64 = 4 << 20
	// reservePart keeps it small on a small disk, which still counts as full without it.
	reservePart = 4
)

// KeepReserve implements [Storage]: unless the disk has no room to spare for it.
func (d *Directory) KeepReserve() (err error) {
	space, err := diskspace.Of(d.root)
	if err != nil {
		return err
	}
	path, size := filepath.Join(d.root, reserveFile), min(reserveBytes, space.LowBytes/reservePart)
	if info, err := os.Lstat(path); err == nil && info.Size() == size || space.Bytes < space.LowBytes+size {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, fileMode)
	if err != nil {
		return err
	}
	defer closing(f, &err)
	if err = allocate(f, size); errors.Is(err, errors.ErrUnsupported) {
		_, err = io.CopyN(f, rand.Reader, size) // a file system cannot compress it
	}
	if err != nil {
		_ = os.Remove(path)
	}
	return err
}

// withReserve tries to write, and once more with the room of the reserve where the disk
// is full.
func (d *Directory) withReserve(write func() error) error {
	err := write()
	if IsFull(err) {
		if gone := os.Remove(filepath.Join(d.root, reserveFile)); gone == nil || errors.Is(gone, fs.ErrNotExist) {
			err = write()
		}
	}
	return err
}
