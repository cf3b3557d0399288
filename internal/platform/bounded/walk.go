package bounded

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// walkBatch is how many entries of a directory are read at once.
const walkBatch = 512

// Entry is a file or directory that [Walk] has found.
type Entry struct {
	// Dir is the directory that contains it. It is closed when the visit returns.
	Dir *os.Root
	// Info describes it as it was before the visits of what is below it. Links are not followed.
	Info fs.FileInfo
	// Hidden: below it may be more than what was visited, because it could not be read or is too
	// deep.
	Hidden bool
}

// Walk visits everything below a directory, the content of a directory before the directory itself.
// Other processes may change the files meanwhile. A visit may remove its entry. depth bounds how
// deep Walk descends: it keeps each directory open. hidden reports that not all of the directory's
// own entries were visited. The error is that of ctx.
func Walk(ctx context.Context, root *os.Root, depth int, visit func(Entry)) (hidden bool, err error) {
	if depth == 0 {
		return true, ctx.Err()
	}
	dirs, hidden := visitFiles(ctx, root, visit)
	for _, name := range dirs {
		info, err := root.Lstat(name)
		if err != nil {
			continue // it is gone
		}
		e := Entry{Dir: root, Info: info}
		if e.Hidden, err = walkBelow(ctx, root, info, depth, visit); err != nil {
			return hidden, err
		}
		visit(e)
	}
	return hidden, ctx.Err()
}

// visitFiles visits the entries of a directory that are not directories, and returns the names of
// those that are.
func visitFiles(ctx context.Context, root *os.Root, visit func(Entry)) (dirs []string, hidden bool) {
	f, err := root.Open(".")
	if err != nil {
		return nil, !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close() //nolint:errcheck // only read
	for err == nil && ctx.Err() == nil {
		var entries []fs.DirEntry
		entries, err = f.ReadDir(walkBatch)
		for _, e := range entries {
			if e.IsDir() {
				dirs = append(dirs, e.Name())
			} else if info, err := root.Lstat(e.Name()); err == nil { // else it is gone
				visit(Entry{Dir: root, Info: info})
			}
		}
	}
	return dirs, err != nil && !errors.Is(err, io.EOF)
}

// walkBelow visits everything below a directory of root.
func walkBelow(ctx context.Context, root *os.Root, info fs.FileInfo, depth int, visit func(Entry)) (hidden bool, err error) {
	if !info.IsDir() { // it was replaced
		return false, ctx.Err()
	}
	sub, err := root.OpenRoot(info.Name())
	if err != nil {
		return errors.Is(err, fs.ErrPermission), ctx.Err()
	}
	defer sub.Close() //nolint:errcheck // only read
	if now, err := sub.Stat("."); err != nil || !os.SameFile(now, info) {
		return false, ctx.Err() // it was replaced
	}
	return Walk(ctx, sub, depth-1, visit)
}

// Below lists the paths that are a number of names below a directory, sorted. Unlike [filepath.Glob], it takes the directory's
// path as it is. Directories that cannot be read have nothing below them.
func Below(dir string, names int) (paths []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		switch path := filepath.Join(dir, e.Name()); {
		case names == 1:
			paths = append(paths, path)
		case e.IsDir():
			paths = append(paths, Below(path, names-1)...)
		}
	}
	return paths
}
