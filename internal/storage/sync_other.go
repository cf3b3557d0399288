//go:build !linux

package storage

import (
	"errors"
	"os"
)

// flushData makes what was written to a file outlive a power loss.
func flushData(f *os.File) error { return f.Sync() }

// exchange makes two files take each other's names at once, where that can be done.
func exchange(_, _ string) error { return errors.ErrUnsupported }
