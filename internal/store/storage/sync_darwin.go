package storage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// syncMany makes files and directories of one file system survive a power loss. macOS has no syncfs: fsync hands each to the
// drive, and [Sync] makes the drive write its cache (F_FULLFSYNC).
func syncMany(root string, paths []string) error {
	for _, path := range paths {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			continue
		}
		if err == nil {
			err = errors.Join(unix.Fsync(int(f.Fd())), f.Close())
		}
		if err != nil {
			return err
		}
	}
	return Sync(root)
}

// FlushFileSystem makes everything that was written below a directory survive a power loss.
func FlushFileSystem(root string) error {
	var paths []string
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err == nil && (e.IsDir() || e.Type().IsRegular()):
			paths = append(paths, path)
		}
		return err
	})
	return errors.Join(err, syncMany(root, paths))
}
