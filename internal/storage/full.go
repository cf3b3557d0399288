package storage

import (
	"errors"
	"syscall"
)

// IsFull tells of an error that a disk, or its owner's part of it, has no room.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
