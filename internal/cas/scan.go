package cas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// found is a file or link that a scan came upon.
type found struct {
	path       string
	executable bool
	link       string // empty for a file
	size       int64
	stamp      stamp
	stamped    bool
	info       fs.FileInfo
	// old is what is stored already of the file or link at the path, if had.
	old Entry
	had bool
}

// scanner walks a directory and lists what belongs to its tree.
type scanner struct {
	root *os.Root
	// extra are gitignore rules that go before those of the tree.
	extra *ignoreRules
	// wanted are patterns of what is listed whatever is ignored.
	wanted patterns
	// only, if not empty, restricts the list to these patterns.
	only patterns
	// base is the tree that the directory had: ignoring does not make its files vanish.
	base *Tree
	// lower is the tree that the directory is the upper one over; nil: it is a whole tree.
	lower *lowerTree
	// leaveOut reports whether a file or directory is passed over that the tree had or had
	// not; nil: none is.
	leaveOut func(p string, info fs.FileInfo, had bool) bool
	// skipped is told what is passed over as ignored; may be nil. Directories
	// end in a slash.
	skipped func(p string)
	limits  Limits
	// fix lets the scan make what the directory's owner may not read readable.
	mend  bool
	files []found
	// bytes is the size of the files together, and most what it may be; zero: any.
	bytes, most int64
}

// openDir opens a directory as the top of a tree, and not what a link in its
// place points to. It makes the directory accessible to its owner.
func openDir(dir string) (_ *os.Root, err error) {
	above, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	defer closing(above, &err)
	name := filepath.Base(dir)
	info, err := above.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	return openSubdir(above, name, info, true)
}

// scan lists the tree below the root.
func (sc *scanner) scan(ctx context.Context) error {
	at := scope{rules: cacheRules(), base: sc.base.top}
	if sc.lower != nil {
		at.lower = sc.lower.top
	}
	return sc.dir(ctx, sc.root, ".", at)
}

// scope is what a directory takes over from those above it.
type scope struct {
	rules *ignoreRules
	// ignored: one of them is ignored, so that only what is wanted or was there before
	// counts.
	ignored bool
	// opaque: one of them hides what the lower tree has below it.
	opaque bool
	// base and lower are the directory in these trees; nil: they do not have it.
	base, lower *treeDir
}

// had returns the file or link that the trees have of a name, and whether they have a
// directory of it.
func (at scope) had(name string) (old Entry, file, below bool) {
	for _, d := range []*treeDir{at.lower, at.base} {
		switch e := d.entry(name); {
		case e == nil:
		case e.sub != nil:
			below = true
		case !file:
			old, file = e.Entry, true
		}
	}
	return old, file, below
}

// dir lists one directory.
func (sc *scanner) dir(ctx context.Context, root *os.Root, dir string, at scope) error {
	entries, err := list(root)
	if err != nil {
		return ofTree(dir, "listed", err)
	}
	hidden, err := sc.lower.hiddenBy(root, dir, at.lower)
	if err != nil {
		return ofTree(dir, "read", err)
	}
	if at.opaque = at.opaque || hidden; !at.ignored {
		if at.rules, err = sc.rulesOf(ctx, root, dir, at, entries); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := path.Join(dir, e.Name())
		info, err := e.Info()
		if err != nil {
			return ofTree(p, "read", err)
		}
		if sc.lower.covered(p, info, at.lower) || isGitDir(e.Name()) {
			continue
		}
		if _, file, below := at.had(e.Name()); sc.leaveOut != nil && sc.leaveOut(p, info, file && !info.IsDir() || below && info.IsDir()) {
			continue
		}
		if info.IsDir() {
			err = sc.subdir(ctx, root, p, info, at)
		} else {
			err = sc.file(root, p, info, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// list returns a directory's entries, sorted.
func list(root *os.Root) ([]fs.DirEntry, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// rulesOf adds a directory's own .gitignore to the rules above it. Links to
// such files do not count, as with git.
func (sc *scanner) rulesOf(ctx context.Context, root *os.Root, dir string, at scope, entries []fs.DirEntry) (*ignoreRules, error) {
	i, ok := slices.BinarySearchFunc(entries, ignoreFile, func(e fs.DirEntry, name string) int {
		return strings.Compare(e.Name(), name)
	})
	if !ok && !at.opaque {
		return sc.lower.rulesOf(ctx, dir, at)
	}
	if !ok || !entries[i].Type().IsRegular() {
		return at.rules, nil
	}
	p := path.Join(dir, ignoreFile)
	info, err := entries[i].Info()
	if err != nil {
		return nil, ofTree(p, "read", err)
	}
	if info.Size() > maxIgnoreFile {
		return nil, ignoreFileTooLarge(p, info.Size())
	}
	f, err := openRegular(root, ignoreFile, info, sc.mend)
	if err != nil {
		return nil, ofTree(p, "read", err)
	}
	defer f.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	if err != nil {
		return nil, ofTree(p, "read", err)
	}
	return parseIgnore(at.rules, dir, string(text)), nil
}

func (sc *scanner) isIgnored(p string, kind fs.FileMode, rules *ignoreRules) bool {
	out, decided := sc.extra.decide(p, kind)
	if !decided {
		out, _ = rules.decide(p, kind)
	}
	return out
}

func (sc *scanner) subdir(ctx context.Context, root *os.Root, p string, info fs.FileInfo, at scope) error {
	if !at.ignored && sc.isIgnored(p, info.Mode(), at.rules) {
		at.ignored = true
		if sc.skipped != nil {
			sc.skipped(p + "/")
		}
	}
	_, _, had := at.had(path.Base(p))
	if at.ignored && !sc.wanted.below(p) && !had || len(sc.only) > 0 && !sc.only.below(p) {
		return nil
	}
	if len(p) > MaxPath {
		return &RefusedError{p, fmt.Sprintf("is a path of %d bytes; at most %d are allowed", len(p), MaxPath)}
	}
	var err error
	if at.base, err = sc.base.subdir(ctx, at.base, p); err != nil {
		return err
	}
	if sc.lower != nil {
		if at.lower, err = sc.lower.subdir(ctx, at.lower, p); err != nil {
			return err
		}
	}
	sub, err := openSubdir(root, path.Base(p), info, sc.mend)
	if err != nil {
		return ofTree(p, "opened", err)
	}
	defer sub.Close() //nolint:errcheck // only read
	return sc.dir(ctx, sub, p, at)
}

func (sc *scanner) file(root *os.Root, p string, info fs.FileInfo, at scope) error {
	if len(sc.only) > 0 && !sc.only.match(p) {
		return nil
	}
	old, had, _ := at.had(path.Base(p))
	if (at.ignored || sc.isIgnored(p, info.Mode(), at.rules)) && !sc.wanted.match(p) && !had {
		if !at.ignored && sc.skipped != nil {
			sc.skipped(p)
		}
		return nil
	}
	if err := CheckPath(p); err != nil {
		return &RefusedError{p, "cannot be kept: " + err.Error()}
	}
	if len(sc.files) >= sc.limits.Files {
		return tooManyFiles(p, sc.limits.Files)
	}
	f := found{path: p, size: info.Size(), info: info, old: old, had: had}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		if sc.bytes += f.size; sc.most > 0 && sc.bytes > sc.most {
			return treeTooLarge(p, sc.most)
		}
		f.executable = mode&0o100 != 0
		f.stamp, f.stamped = stampOf(info)
	case mode&fs.ModeSymlink != 0:
		target, err := root.Readlink(path.Base(p))
		if err != nil {
			return ofTree(p, "read", err)
		}
		if err := CheckLink(p, target); err != nil {
			return &RefusedError{p, "cannot be kept: " + err.Error()}
		}
		f.link = target
	default:
		return &RefusedError{p, "is a " + kindOf(mode) + "; only files and links can be kept: remove it, or ignore it"}
	}
	sc.files = append(sc.files, f)
	return nil
}

// tooManyFiles refuses a tree at the file with which it has too many.
func tooManyFiles(p string, most int) error {
	return &RefusedError{p, fmt.Sprintf("exceeds the limit of %d files; exclude files with .gitignore or ignore: in the team file", most)}
}

// treeTooLarge refuses a tree at the file with which it has too many bytes.
func treeTooLarge(p string, most int64) error {
	return &RefusedError{p, fmt.Sprintf("makes the tree larger than %d bytes; remove or ignore files, or raise limits.tree_bytes in the worker file", most)}
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

// errChanged says that a directory is being changed while it is read.
var errChanged = errors.New("it is being changed at the same time")

// openSubdir opens a directory that was seen as info, and nothing else that has
// taken its place. fix lets it make the directory accessible to its owner.
func openSubdir(root *os.Root, name string, info fs.FileInfo, mend bool) (*os.Root, error) {
	if perm := info.Mode().Perm(); mend && perm&0o700 != 0o700 {
		if err := root.Chmod(name, perm|0o700); err != nil {
			return nil, err
		}
	}
	sub, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	now, err := sub.Stat(".")
	if err == nil && !os.SameFile(now, info) {
		err = errChanged
	}
	if err != nil {
		_ = sub.Close()
		return nil, err
	}
	return sub, nil
}

// openRegular opens a file that was seen as info, and nothing else that has
// taken its place. fix lets it make the file readable by its owner.
func openRegular(root *os.Root, name string, info fs.FileInfo, mend bool) (*os.File, error) {
	if perm := info.Mode().Perm(); mend && perm&0o400 == 0 {
		if err := root.Chmod(name, perm|0o600); err != nil {
			return nil, err
		}
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not block
	if err != nil {
		return nil, err
	}
	now, err := f.Stat()
	if err == nil && !os.SameFile(now, info) {
		err = errChanged
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
