//go:build !linux

package storage

import (
	"errors"
	"os"
)

// allocate returns [errors.ErrUnsupported]: reserving disk space is not supported on this
// platform.
func allocate(*os.File, int64) error { return errors.ErrUnsupported }
