package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Directory is a [Storage] in a directory of a file system. It keeps each document in a
// file. Files are replaced by renaming, and written under file locks.
type Directory struct {
	root string
	now  func() time.Time
	// unflushed: nothing in the directory has to survive a power loss.
	unflushed bool
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

var _ Storage = (*Directory)(nil)

func (d *Directory) path(key string) (string, error) {
	if err := CheckKey(key); err != nil {
		return "", err
	}
	return filepath.Join(d.root, filepath.FromSlash(key)), nil
}

// Read implements [Documents].
func (d *Directory) Read(key string) ([]byte, Version, error) {
	path, err := d.path(key)
	if err != nil {
		return nil, "", err
	}
	data, err := readFile(path)
	if err != nil {
		return nil, "", err
	}
	return data, VersionOf(data), nil
}

func readFile(path string) (_ []byte, err error) {
	f, err := openFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > MaxDocument {
		return nil, fmt.Errorf("%w: it has %d bytes, and at most %d are allowed", ErrTooLarge, info.Size(), MaxDocument)
	}
	data := make([]byte, info.Size(), info.Size()+1)
	n, err := io.ReadFull(f, data)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil // it was truncated since Stat
	}
	return data[:n], err
}

// Write implements [Documents]. It writes the new file before it takes the lock, so a process
// that is stopped while writing does not block others.
func (d *Directory) Write(key string, data []byte, version Version, durability Durability) (Version, error) {
	path, err := d.path(key)
	if err != nil {
		return "", err
	}
	if len(data) > MaxDocument {
		return "", fmt.Errorf("%w: it has %d bytes, and at most %d are allowed", ErrTooLarge, len(data), MaxDocument)
	}
	temp, err := d.writeTemp(path, data, durability)
	if err != nil {
		return "", err
	}
	err = d.withLock(key, func() error {
		if err := hasVersion(path, version); err != nil {
			return err
		}
		return d.install(temp, path, durability)
	})
	if err != nil {
		_ = os.Remove(temp)
		return "", err
	}
	return VersionOf(data), nil
}

// hasVersion returns ErrConflict if a file has another version.
func hasVersion(path string, version Version) error {
	data, err := readFile(path)
	switch {
	case errors.Is(err, ErrNotFound):
		if version == "" {
			return nil
		}
	case err != nil:
		return err
	case VersionOf(data) == version:
		return nil
	}
	return ErrConflict
}

// Delete implements [Storage].
func (d *Directory) Delete(key string, version Version) error {
	path, err := d.path(key)
	if err != nil {
		return err
	}
	return d.withLock(key, func() error {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return ErrNotFound
		}
		if err := hasVersion(path, version); err != nil {
			return err
		}
		return os.Remove(path)
	})
}

// ModTime implements [Storage].
func (d *Directory) ModTime(key string) (time.Time, error) {
	path, err := d.path(key)
	if err != nil {
		return time.Time{}, err
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, ErrNotFound
	}
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// Clock implements [Storage] with a temporary file.
func (d *Directory) Clock() (now time.Time, err error) {
	f, err := d.temp()
	if err != nil {
		return now, fmt.Errorf("write into the store: %w", err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // swept away later
	defer closing(f, &err)
	if _, err := f.WriteString("\n"); err != nil {
		return now, fmt.Errorf("write into the store: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return now, fmt.Errorf("read back from the store: %w", err)
	}
	return info.ModTime(), nil
}

// List implements [Storage].
func (d *Directory) List(key string) ([]string, error) {
	path, err := d.path(key)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		switch {
		case e.IsDir():
			names = append(names, e.Name()+"/")
		case e.Type().IsRegular():
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Quarantine implements [Storage].
func (d *Directory) Quarantine(key string, version Version) (string, error) {
	path, err := d.path(key)
	if err != nil {
		return "", err
	}
	to := d.quarantined(path)
	return d.Rel(to), d.withLock(key, func() error {
		if err := hasVersion(path, version); err != nil {
			return err
		}
		return d.install(path, to, UntilPowerLoss)
	})
}

// quarantined returns a path in the quarantine for a damaged file.
func (d *Directory) quarantined(path string) string {
	return filepath.Join(d.root, "quarantine", flat(d.Rel(path))+"."+d.now().UTC().Format("20060102T150405.000000000Z"))
}

func flat(rel string) string { return strings.ReplaceAll(rel, string(os.PathSeparator), "-") }

// Rel returns the path of a file relative to the directory, for messages.
func (d *Directory) Rel(path string) string {
	r, err := filepath.Rel(d.root, path)
	if err != nil {
		return path
	}
	return r
}
