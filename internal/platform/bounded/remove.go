package bounded

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// maxOpen is how many directories are open at once while a tree is removed.
const maxOpen = 64

// RemoveAll removes a file, or a directory with all below it, also what its owner has made
// inaccessible. What is not there is no error. However deep the directory is, few files
// are open meanwhile: [os.Root.RemoveAll] keeps one open for each level.
func RemoveAll(root *os.Root, name string) error {
	r := removal{root: root, name: name}
	for {
		before := r.moved
		if err := r.remove(root, name, name, 0); err == nil || r.moved == before {
			return err
		}
	}
}

// RemoveTree is [RemoveAll] of a path. It follows no link but those of the directory above it.
func RemoveTree(path string) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // only a place
	return RemoveAll(root, filepath.Base(path))
}

// removal is that of one directory. What is too deep in it is moved to its top, and
// removed from there.
type removal struct {
	root  *os.Root
	name  string
	moved int
}

// remove removes what has a name in a directory, and a path below root.
func (r *removal) remove(dir *os.Root, name, path string, depth int) error {
	err := dir.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	info, missing := dir.Lstat(name)
	if missing != nil || !info.IsDir() {
		return err
	}
	if perm := info.Mode().Perm(); perm&0o700 != 0o700 {
		if err := dir.Chmod(name, perm|0o700); err != nil {
			return err
		}
	}
	if depth == maxOpen {
		r.moved++
		return r.root.Rename(path, r.name+"/"+rand.Text())
	}
	if err := r.empty(dir, name, path, depth); err != nil {
		return err
	}
	return dir.Remove(name)
}

// empty removes all below a directory, besides what is moved.
func (r *removal) empty(dir *os.Root, name, path string, depth int) (err error) {
	sub, err := dir.OpenRoot(name)
	if err != nil {
		return err
	}
	defer sub.Close() //nolint:errcheck // only read
	entries, err := fs.ReadDir(sub.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if failed := r.remove(sub, e.Name(), path+"/"+e.Name(), depth+1); err == nil {
			err = failed
		}
	}
	return err
}

// RemoveOld removes the directories in dir whose names begin with prefix and that nobody has changed since a
// time: what processes leave that are killed. It is housekeeping: what it cannot remove stays.
func RemoveOld(dir, prefix string, since time.Time) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer root.Close() //nolint:errcheck // only a place
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.IsDir() && strings.HasPrefix(e.Name(), prefix) && info.ModTime().Before(since) {
			_ = RemoveAll(root, e.Name())
		}
	}
}
