package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// creationPrefix is the prefix of temporary files during the creation of a store. A directory
	// that contains only such files counts as empty.
	creationPrefix = ".store-"
	// staleTemp is the age from which on a temporary file has no running writer.
	staleTemp = 24 * time.Hour
)

// Create makes the directory, which must not exist or be empty, and its first file. If
// several processes do that at once, one makes it, and the others find it. The
// directory is readable by its owner only.
func (d *Directory) Create(key string, document []byte) error {
	if err := os.MkdirAll(d.root, dirMode); err != nil {
		return fmt.Errorf("create the store's directory: %w; create it yourself, or choose another", err)
	}
	if err := d.checkVacant(key); err != nil {
		return err
	}
	if err := os.Chmod(d.root, dirMode); err != nil {
		return fmt.Errorf("restrict the store to its owner: %w; choose another directory", err)
	}
	if err := d.claim(d.path(key), document); err != nil {
		return fmt.Errorf("create a store in %s: %w", d.root, err)
	}
	return nil
}

// checkVacant returns an error for a directory that contains anything but files of a creation.
func (d *Directory) checkVacant(first string) error {
	entries, err := os.ReadDir(d.root)
	if err != nil {
		return fmt.Errorf("read the store's directory: %w", err)
	}
	for _, e := range entries {
		if name := e.Name(); name != first && name != "lost+found" && !strings.HasPrefix(name, creationPrefix) {
			if _, err := os.Lstat(filepath.Join(d.root, first)); err == nil {
				return nil // another process was faster
			}
			return fmt.Errorf("%s is neither empty nor a store: it has %q and no %s; give an empty directory, or a store", d.root, name,
				first)
		}
	}
	return nil
}

// claim writes the first file unless another process has done so.
func (d *Directory) claim(path string, document []byte) error {
	f, err := os.CreateTemp(d.root, creationPrefix+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // a leftover does no harm
	if err := writeAll(f, document, true); err != nil {
		return err
	}
	// A link, unlike a rename, does not replace what another process made.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return Sync(d.root)
}

// RemoveOldTemp removes temporary files whose writers have ended. Errors are ignored: a later
// call tries again.
func (d *Directory) RemoveOldTemp() {
	entries, err := os.ReadDir(filepath.Join(d.root, tempDir))
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && d.now().Sub(info.ModTime()) > staleTemp {
			_ = os.RemoveAll(filepath.Join(d.root, tempDir, e.Name()))
		}
	}
}
