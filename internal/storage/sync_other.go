//go:build !linux

package storage

import (
	"errors"
	"os"
	"path/filepath"
)

// flushData makes a file's content survive a power loss.
func flushData(f *os.File) error { return f.Sync() }

// flushFileSystem makes the named files survive a power loss.
func flushFileSystem(_ string, files []string) error {
	for _, path := range files {
		if err := errors.Join(syncDir(path), syncDir(filepath.Dir(path))); err != nil { // syncDir works for files, too
			return err
		}
	}
	return nil
}
