package layers

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/djherbis/times"
)

// errChanged: a layer is not as it was made.
var errChanged = errors.New("its files were changed since it was made")

// unchanged returns errChanged if a layer is not as it was made. It reads no content: a change of a file shows in its
// times, of which nobody can set that of the last change.
func (l *Layers) unchanged(name string, at layer) error {
	stamp, err := stampOf(filepath.Join(l.path(name), treeDir))
	if err == nil && stamp != at.Stamp {
		err = errChanged
	}
	return err
}

// stampOf identifies what is below a directory by the names, numbers, modes, sizes and times of all files.
func stampOf(dir string) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		is, _ := info.Sys().(*syscall.Stat_t)
		_, err = fmt.Fprintf(sum, "%s\x00%d %d %d %d %d %d %d\x00", path[len(dir):], is.Ino, is.Mode, is.Uid, is.Size, is.Rdev,
			info.ModTime().UnixNano(), times.Get(info).ChangeTime().UnixNano())
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read the layer %s: %w", dir, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Verify removes the layers below a root that are not as they were made, and returns their names.
func Verify(root string) (removed []string, err error) {
	l, err := openRoot(Options{Root: root})
	if err != nil {
		return nil, err
	}
	all, err := l.list()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for name, e := range all {
		if !e.usable || !errors.Is(l.unchanged(name, e.layer), errChanged) { // what is not usable is not used
			continue
		}
		if err := l.discard(name); err != nil {
			return removed, err
		}
		removed = append(removed, name)
	}
	return removed, nil
}
