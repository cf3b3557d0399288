package store

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/maestro-hive/maestro/internal/diskspace"
	"github.com/maestro-hive/maestro/internal/storage"
)

const (
	// reserveFile takes up room that the store gives itself when its disk is full: what is
	// to be recorded is small, and lets sessions end and give back what they take up.
	reserveFile        = ".reserve"
	reserveBytes int64 = 4 << 20
	// reservePart keeps it small on a small disk, which still counts as full without it.
	reservePart = 4
)

// KeepReserve makes the reserve, unless it is there already or the disk has no room to
// spare for it.
func (s *Store) KeepReserve() (err error) {
	d, err := diskspace.Of(s.dir)
	if err != nil {
		return err
	}
	path, size := s.path(reserveFile), min(reserveBytes, d.LowBytes/reservePart)
	if info, err := os.Lstat(path); err == nil && info.Size() == size || d.Bytes < d.LowBytes+size {
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
func (s *Store) withReserve(try func() error) error {
	err := try()
	if storage.IsFull(err) {
		if gone := os.Remove(s.path(reserveFile)); gone == nil || errors.Is(gone, fs.ErrNotExist) {
			err = try()
		}
	}
	return err
}
