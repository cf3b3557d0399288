package cas

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/gofrs/flock"

	"github.com/maestro-hive/maestro/internal/storage"
)

// withSweepShared runs change while nothing is swept away. Many may at once; it must not
// take long.
func (s *Store) withSweepShared(change func() error) error {
	return s.sweepLock((*flock.Flock).RLock, change)
}

// WithSweepLock runs change while no blob is marked as used.
func (s *Store) WithSweepLock(change func() error) error {
	return s.sweepLock((*flock.Flock).Lock, change)
}

func (s *Store) sweepLock(lock func(*flock.Flock) error, change func() error) (err error) {
	l := flock.New(s.path("locks", ".sweep"), flock.SetPermissions(fileMode))
	err = lock(l)
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.files.MakeDir(s.path("locks"), storage.UntilPowerLoss); err != nil {
			return fmt.Errorf("create the directory of a lock: %w", err)
		}
		err = lock(l)
	}
	if err != nil {
		_ = l.Close()
		return fmt.Errorf("lock the store's blobs: %w", err)
	}
	defer closing(l, &err)
	return change()
}
