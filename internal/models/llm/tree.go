package llm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

const (
	// maxFile bounds a file that is read, searched or edited, and maxWrite a file that is
	// written, in bytes.
	maxFile  = 4 << 20
	maxWrite = 1 << 20
	// maxPath bounds a path, in bytes.
	maxPath = 1024
)

// tree is the assignment's directory. Its root prevents access through paths and links that lead
// out of it.
type tree struct{ root *os.Root }

// wrong is an error of the model, worded for the model.
type wrong struct{ text string }

// Error is the text.
func (w wrong) Error() string { return w.text }

func wrongf(format string, args ...any) error { return wrong{fmt.Sprintf(format, args...)} }

// clean checks a path from a model.
func clean(name string) (string, error) {
	switch {
	case name == "":
		return "", malformedf("path is missing; give a path relative to the directory, like docs/design.md")
	case len(name) > maxPath:
		return "", wrongf("path has %d bytes; at most %d are allowed", len(name), maxPath)
	case strings.ContainsRune(name, 0):
		return "", wrongf("path has a NUL character")
	case path.IsAbs(name):
		return "", wrongf("%s is absolute; give a path relative to the directory", name)
	}
	cleaned := path.Clean(name)
	if cleaned == ".." || strings.HasPrefix(cleaned, "../") {
		return "", wrongf("%s leads out of the directory", name)
	}
	if first, _, _ := strings.Cut(cleaned, "/"); first == ".git" {
		return "", wrongf("%s belongs to git, which is not part of the work", name)
	}
	return cleaned, nil
}

// explain converts an error of the file system into one for the model.
func explain(name string, err error) error {
	var p *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return wrongf("%s does not exist; list the directory to see what does", name)
	case errors.As(err, &p) && strings.Contains(p.Err.Error(), "escapes"):
		return wrongf("%s leads out of the directory", name)
	case errors.As(err, &p):
		return wrongf("%s: %v", name, p.Err)
	}
	return wrongf("%s: %v", name, err)
}

// read returns the text of a file.
func (t tree) read(name string) (string, error) {
	// O_NONBLOCK, because opening a pipe would block.
	f, err := t.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", explain(name, err)
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", explain(name, err)
	case info.IsDir():
		return "", wrongf("%s is a directory; list it", name)
	case !info.Mode().IsRegular():
		return "", wrongf("%s is no regular file", name)
	case info.Size() > maxFile:
		return "", wrongf("%s has %d bytes; files of more than %d cannot be read", name, info.Size(), maxFile)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return "", explain(name, err)
	case len(data) > maxFile:
		return "", wrongf("%s has more than %d bytes and cannot be read", name, maxFile)
	case !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0:
		return "", wrongf("%s is not text in UTF-8 (%d bytes); only text can be read", name, len(data))
	}
	return string(data), nil
}

// write writes a file and creates its directories. If executable is nil, an existing file keeps
// its mode.
func (t tree) write(name, content string, executable *bool) error {
	mode := fs.FileMode(0o644)
	info, err := t.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return explain(name, err)
	case info.IsDir():
		return wrongf("%s is a directory", name)
	case info.Mode()&fs.ModeSymlink != 0:
		return wrongf("%s is a link; write to what it points to, or delete it first", name)
	case !info.Mode().IsRegular():
		return wrongf("%s is no regular file", name)
	default:
		mode |= info.Mode() & 0o111
	}
	if executable != nil {
		mode = 0o644
		if *executable {
			mode = 0o755
		}
	}
	if mode&0o111 != 0 {
		mode = 0o755
	}
	if err := t.put(name, content, mode); err != nil {
		return explain(name, err)
	}
	return nil
}

func (t tree) put(name, content string, mode fs.FileMode) error {
	if err := t.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := t.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return errors.Join(err, f.Chmod(mode), f.Close())
}

// remove deletes a file or a link.
func (t tree) remove(name string) error {
	info, err := t.root.Lstat(name)
	switch {
	case err != nil:
		return explain(name, err)
	case info.IsDir():
		return wrongf("%s is a directory; delete the files in it, empty directories are no part of the work", name)
	}
	if err := t.root.Remove(name); err != nil {
		return explain(name, err)
	}
	return nil
}

// entry is a path below a directory.
type entry struct {
	path string
	info fs.FileInfo
}

// walk returns the entries in and below a directory, sorted by path, but at most the given
// number; more reports that there are others. It does not follow links, and skips .git.
func (t tree) walk(name string, most int) (entries []entry, more bool, err error) {
	err = fs.WalkDir(t.root.FS(), name, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && p == name:
			return err
		case err != nil:
			return nil //nolint:nilerr // unreadable entries are skipped
		case p == name && d.IsDir():
			return nil
		case p == ".git":
			return skip(d)
		case len(entries) == most:
			more = true
			return fs.SkipAll
		}
		if info, err := d.Info(); err == nil {
			entries = append(entries, entry{p, info})
		}
		return nil
	})
	if err != nil {
		return nil, false, explain(name, err)
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return entries, more, nil
}

// has reports whether a file matches the pattern.
func (t tree) has(pattern string) (bool, error) {
	matches, err := doublestar.Glob(t.root.FS(), pattern, doublestar.WithFilesOnly(), doublestar.WithNoFollow())
	return len(matches) > 0, err
}

func skip(d fs.DirEntry) error {
	if d.IsDir() {
		return fs.SkipDir
	}
	return nil
}
