package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Directory is the directory of a store. Its methods are safe for concurrent use by many goroutines and many processes.
type Directory struct {
	root string
	now  func() time.Time
}

// NewDirectory returns the storage in a directory. The directory need not exist before the first
// write.
func NewDirectory(root string, now func() time.Time) (*Directory, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("find the store's directory: %w", err)
	}
	return &Directory{root: abs, now: now}, nil
}

// Root returns the absolute path of the directory.
func (d *Directory) Root() string { return d.root }

var (
	_ Content = (*Directory)(nil)
	_ Files   = (*Directory)(nil)
)

func (d *Directory) path(key string) string { return filepath.Join(d.root, filepath.FromSlash(key)) }

// Read implements [Files].
func (d *Directory) Read(_ context.Context, key string) ([]byte, error) {
	f, err := os.Open(d.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", key, maxFile)
	}
	return data, err
}

// Replace implements [Files]. If the disk is full, it uses the reserved disk space.
func (d *Directory) Replace(_ context.Context, key string, data []byte) error {
	return d.withReserve(func() error { return d.writeFile(d.path(key), data) })
}

// Remove implements [Files].
func (d *Directory) Remove(_ context.Context, key string) error {
	return IgnoreMissing(os.Remove(d.path(key)))
}

// IgnoreMissing is nil for the error of a file that does not exist.
func IgnoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// List implements [Files].
func (d *Directory) List(_ context.Context, key string) ([]string, error) {
	entries, err := os.ReadDir(d.path(key))
	if IgnoreMissing(err) != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// damagedPath returns the key in the directory damaged for a damaged file.
func (d *Directory) damagedPath(key string) string {
	return "damaged/" + strings.ReplaceAll(key, "/", "-") + "." + d.now().UTC().Format("20060102T150405.000000000Z")
}
