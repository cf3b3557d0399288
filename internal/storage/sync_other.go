//go:build !linux

package storage

import (
	"errors"
	"os"
	"path/filepath"
)

// flushData makes what was written to a file outlive a power loss.
func flushData(f *os.File) error { return f.Sync() }

// flushFileSystem makes the named files outlive a power loss.
func flushFileSystem(_ string, files []string) error {
	for _, path := range files {
		if err := errors.Join(syncDir(path), syncDir(filepath.Dir(path))); err != nil { // the same for a file
			return err
		}
	}
	return nil
}
