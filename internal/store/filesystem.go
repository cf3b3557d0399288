package store

import (
	"fmt"
	"os"
	"time"
)

// Clock tells what time it is by the clock of the file system that holds the store,
// which is another machine's where that is shared. It writes an empty file and removes
// it again.
func (s *Store) Clock() (now time.Time, err error) {
	f, err := s.files.Temp()
	if err != nil {
		return now, fmt.Errorf("write into the store: %w", err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // swept away later
	defer closing(f, &err)
	if _, err := f.WriteString("\n"); err != nil {
		return now, fmt.Errorf("write into the store: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return now, fmt.Errorf("read back from the store: %w", err)
	}
	return info.ModTime(), nil
}

// OfferFile is the file of a worker's offer, and when it was last written by the clock
// of the store's file system. Compared with what the offer says, that tells how the
// worker's clock goes.
func (s *Store) OfferFile(worker string) (path string, written time.Time, err error) {
	path = s.path(offerKey(worker))
	info, err := os.Stat(path)
	if err != nil {
		return path, written, fmt.Errorf("stat the offer of %s: %w", worker, err)
	}
	return path, info.ModTime(), nil
}

// CheckLocks tries whether the store's file system keeps two that hold a file open
// from locking it both: nil if it does.
func (s *Store) CheckLocks() error { return s.files.CheckLocks() }
