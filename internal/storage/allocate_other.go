//go:build !linux

package storage

import (
	"errors"
	"os"
)

// allocate gives an empty file its size on disk, where that can be done.
func allocate(*os.File, int64) error { return errors.ErrUnsupported }
