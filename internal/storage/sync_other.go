//go:build !linux

package storage

import (
	"errors"
	"path/filepath"
)

// FlushFileSystem makes the named files survive a power loss.
func FlushFileSystem(_ string, files []string) error {
	for _, path := range files {
		if err := errors.Join(syncDir(path), syncDir(filepath.Dir(path))); err != nil { // syncDir works for files, too
			return err
		}
	}
	return nil
}
