// Package castest generates trees and random changes as agents make them, for property tests that
// compare implementations.
package castest

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

var (
	// There are few names, so that operations meet existing paths. Some are ignored by default,
	// some by generated rules.
	name = rapid.SampledFrom([]string{"a", "b", "d", "a.b", "x.log", "out", "node_modules", ".git", ".gitignore"})
	// Rule generates a line of a .gitignore.
	Rule = rapid.SampledFrom([]string{"*.log", "!x.log", "out/", "/a", "b", "d/a", "**/out/*", "!node_modules", "a.b/**"})
	// Path generates a path.
	Path = rapid.Custom(func(t *rapid.T) string {
		return path.Join(rapid.SliceOfN(name, 1, 3).Draw(t, "names")...)
	})
	// Content generates a file's content, which may be ignore rules.
	Content = rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(Rule, 0, 2).Draw(t, "content"), "\n")
	})
)

// Operation does a random operation in a directory, as an agent would. It does not touch anything
// outside. Operations that are not possible there are skipped.
func Operation(t *rapid.T, dir *os.Root) {
	p, q := Path.Draw(t, "path"), Path.Draw(t, "other")
	what := rapid.SampledFrom([]string{
		"write", "write", "write", "rules", "append", "chmod", "lock", "remove", "remove", "rename", "rename", "link", "hard link",
		"mkdir", "touch", "file for directory", "directory for file", "xattr", "pipe", "device",
	}).Draw(t, "operation")
	_ = dir.MkdirAll(path.Dir(p), 0o755)
	switch what {
	case "file for directory", "directory for file", "link":
		_ = dir.RemoveAll(p)
	}
	switch what {
	case "write", "file for directory":
		write(dir, p, os.O_TRUNC, Content.Draw(t, "text"))
	case "rules":
		write(dir, path.Join(path.Dir(p), ".gitignore"), os.O_TRUNC, Content.Draw(t, "rules"))
	case "append":
		write(dir, p, os.O_APPEND, Content.Draw(t, "text"))
	case "chmod":
		_ = dir.Chmod(p, rapid.SampledFrom([]os.FileMode{0o755, 0o644, 0o600, 0o700}).Draw(t, "mode"))
	case "lock":
		_ = dir.Chmod(p, 0)
	case "remove":
		_ = dir.RemoveAll(p)
	case "rename":
		move(dir, p, q)
	case "link":
		_ = dir.Symlink(rapid.SampledFrom([]string{"a", "b/d", "../a", "..", "/absent"}).Draw(t, "target"), p)
	case "hard link":
		_ = dir.Link(p, q)
	case "mkdir":
		_ = dir.Mkdir(p, 0o755)
	case "directory for file":
		_ = dir.Mkdir(p, 0o755)
		write(dir, path.Join(p, "a"), os.O_TRUNC, "new")
	case "touch":
		_ = dir.Chtimes(p, time.Unix(1, 0), time.Unix(2, 0))
	default:
		special(t, dir, what, p)
	}
}

// Tree generates the files of a tree, with their contents.
func Tree(t *rapid.T) map[string]string {
	files := cas.Manifest{}
	out := map[string]string{}
	for p, text := range rapid.MapOfN(Path, Content, 0, 12).Draw(t, "tree") {
		more := maps.Clone(files)
		if more[p] = (cas.Entry{SHA256: spec.DigestOf(nil)}); more.Check() == nil {
			files, out[p] = more, text
		}
	}
	return out
}

// special creates special files, which agents should not create.
func special(t *rapid.T, dir *os.Root, what, p string) {
	above, err := dir.OpenFile(path.Dir(p), os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return
	}
	defer above.Close() //nolint:errcheck // only read
	last := path.Base(p)
	switch what {
	case "pipe":
		_ = unix.Mkfifoat(int(above.Fd()), last, 0o644)
	case "device":
		_ = unix.Mknodat(int(above.Fd()), last, unix.S_IFCHR, 0)
	case "xattr":
		xattr := rapid.SampledFrom([]string{"opaque", "whiteout", "redirect", "metacopy", "overlay.opaque"}).Draw(t, "xattr")
		value := rapid.SampledFrom([]string{"y", "x", "/a", ""}).Draw(t, "value")
		_ = unix.Fsetxattr(int(above.Fd()), "user.overlay."+xattr, []byte(value), 0)
	}
}

func write(dir *os.Root, p string, flag int, text string) {
	f, err := dir.OpenFile(p, flag|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o644)
	if err == nil {
		_, _ = f.WriteString(text)
		_ = f.Close()
	}
}

// move renames as mv does: if renaming fails, it copies and removes.
func move(dir *os.Root, from, to string) {
	if err := dir.Rename(from, to); !errors.Is(err, syscall.EXDEV) || dir.Mkdir(to, 0o755) != nil {
		return
	}
	_ = fs.WalkDir(dir.FS(), from, func(p string, e fs.DirEntry, err error) error {
		there := path.Join(to, strings.TrimPrefix(p, from))
		switch {
		case err != nil || p == from:
		case e.IsDir():
			_ = dir.Mkdir(there, 0o755)
		case e.Type().IsRegular():
			text, _ := dir.ReadFile(p)
			write(dir, there, os.O_TRUNC, string(text))
		case e.Type()&fs.ModeSymlink != 0:
			target, _ := dir.Readlink(p)
			_ = dir.Symlink(target, there)
		}
		return nil
	})
	_ = dir.RemoveAll(from)
}
