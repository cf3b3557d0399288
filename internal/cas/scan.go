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
	"sync/atomic"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// found is a file or link that a scan came upon.
type found struct {
	path string
	// Entry is what it is; of a file, once it is stored.
	Entry
	// info is what was listed, and stamp what was seen last. kept: the content can be
	// remembered by that.
	info  fs.FileInfo
	stamp stamp
	kept  bool
	// old is what is stored already of the file or link at the path; nil: nothing is.
	old *Entry
}

func (f *found) executable() bool { return f.info.Mode()&0o100 != 0 }

// before is what is stored already; the zero value: nothing is.
func (f *found) before() Entry {
	if f.old == nil {
		return Entry{}
	}
	return *f.old
}

// listing is what a scan came upon in a directory, and in those below it.
type listing struct {
	files []found
	below []*listing
}

// all lists the files of a directory, and then those of each below it.
func (l *listing) all(to []found) []found {
	to = append(to, l.files...)
	for _, sub := range l.below {
		to = sub.all(to)
	}
	return to
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
	// beside has directories scanned side by side, which then call leaveOut and skipped at the
	// same time; nil: one follows the other.
	beside *errgroup.Group
	limits Limits
	// mend lets the scan make what the directory's owner may not read readable.
	mend  bool
	count atomic.Int64
	// bytes is the size of the files together, and most what it may be; zero: any.
	bytes atomic.Int64
	most  int64
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

// scan lists the tree below the root: a directory's files follow each other.
func (sc *scanner) scan(ctx context.Context) ([]found, error) {
	at := scope{rules: cacheRules(), base: sc.base.top}
	if sc.lower != nil {
		at.lower = sc.lower.top
	}
	var top listing
	err := sc.dir(ctx, sc.root, ".", at, &top)
	if sc.beside != nil {
		err = errors.Join(err, sc.beside.Wait())
	}
	if err != nil {
		return nil, err
	}
	return top.all(make([]found, 0, sc.count.Load())), nil
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
func (at scope) had(name string) (file *Entry, below bool) {
	for _, d := range [...]*treeDir{at.lower, at.base} {
		switch e := d.entry(name); {
		case e == nil:
		case e.sub != nil:
			below = true
		case file == nil:
			file = &e.Entry
		}
	}
	return file, below
}

// dir lists one directory, and those below it.
func (sc *scanner) dir(ctx context.Context, root *os.Root, dir string, at scope, into *listing) error {
	entries, err := sc.look(ctx, root, dir, &at)
	if err != nil {
		return err
	}
	into.files = make([]found, 0, len(entries))
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := below(dir, e.Name())
		if sc.lower.covered(p, e, at.lower) || isGitDir(e.Name()) {
			continue
		}
		file, below := at.had(e.Name())
		if sc.leaveOut != nil && sc.leaveOut(p, e, file != nil && !e.IsDir() || below && e.IsDir()) {
			continue
		}
		if e.IsDir() {
			err = sc.subdir(ctx, root, p, e, at, into)
		} else {
			err = sc.file(root, p, e, at, into)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// look returns what is in a directory, sorted, and adds to the scope what the directory has for it.
func (sc *scanner) look(ctx context.Context, root *os.Root, dir string, at *scope) ([]fs.FileInfo, error) {
	d, err := enter(root)
	if err != nil {
		return nil, ofTree(dir, "opened", err)
	}
	defer d.Close() //nolint:errcheck // only read
	entries, err := d.list()
	if err != nil {
		return nil, ofTree(dir, "listed", err)
	}
	hidden, err := sc.lower.hiddenBy(d.self, dir, at.lower)
	if err != nil {
		return nil, ofTree(dir, "read", err)
	}
	if at.opaque = at.opaque || hidden; !at.ignored {
		at.rules, err = sc.rulesOf(ctx, d, dir, *at, entries)
	}
	return entries, err
}

// list returns what is in the directory, sorted.
func (d directory) list() ([]fs.FileInfo, error) {
	entries, err := d.self.Readdir(-1)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b fs.FileInfo) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// rulesOf adds a directory's own .gitignore to the rules above it. Links to
// such files do not count, as with git.
func (sc *scanner) rulesOf(ctx context.Context, in directory, dir string, at scope, entries []fs.FileInfo) (*ignoreRules, error) {
	i, ok := slices.BinarySearchFunc(entries, ignoreFile, func(e fs.FileInfo, name string) int {
		return strings.Compare(e.Name(), name)
	})
	if !ok && !at.opaque {
		return sc.lower.rulesOf(ctx, dir, at)
	}
	if !ok || !entries[i].Mode().IsRegular() {
		return at.rules, nil
	}
	p, info := path.Join(dir, ignoreFile), entries[i]
	if info.Size() > maxIgnoreFile {
		return nil, ignoreFileTooLarge(p, info.Size())
	}
	f, _, err := in.openRegular(ignoreFile, info, sc.mend)
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

func (sc *scanner) subdir(ctx context.Context, root *os.Root, p string, info fs.FileInfo, at scope, into *listing) error {
	if !at.ignored && sc.isIgnored(p, info.Mode(), at.rules) {
		at.ignored = true
		if sc.skipped != nil {
			sc.skipped(p + "/")
		}
	}
	_, had := at.had(info.Name())
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
	sub, err := openSubdir(root, info.Name(), info, sc.mend)
	if err != nil {
		return ofTree(p, "opened", err)
	}
	found := &listing{}
	into.below = append(into.below, found)
	scan := func() error {
		defer sub.Close() //nolint:errcheck // only read
		return sc.dir(ctx, sub, p, at, found)
	}
	if sc.beside != nil && sc.beside.TryGo(scan) {
		return nil
	}
	return scan()
}

func (sc *scanner) file(root *os.Root, p string, info fs.FileInfo, at scope, into *listing) error {
	if len(sc.only) > 0 && !sc.only.match(p) {
		return nil
	}
	old, _ := at.had(info.Name())
	if (at.ignored || sc.isIgnored(p, info.Mode(), at.rules)) && !sc.wanted.match(p) && old == nil {
		if !at.ignored && sc.skipped != nil {
			sc.skipped(p)
		}
		return nil
	}
	if err := CheckPath(p); err != nil {
		return &RefusedError{p, "cannot be kept: " + err.Error()}
	}
	if sc.count.Add(1) > int64(sc.limits.Files) {
		return tooManyFiles(p, sc.limits.Files)
	}
	f := found{path: p, info: info, old: old}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		if bytes := sc.bytes.Add(info.Size()); sc.most > 0 && bytes > sc.most {
			return treeTooLarge(p, sc.most)
		}
	case mode&fs.ModeSymlink != 0:
		target, err := root.Readlink(info.Name())
		if err != nil {
			return ofTree(p, "read", err)
		}
		if err := CheckLink(p, target); err != nil {
			return &RefusedError{p, "cannot be kept: " + err.Error()}
		}
		f.Link = target
	default:
		return &RefusedError{p, "is a " + kindOf(mode) + "; only files and links can be kept: remove it, or ignore it"}
	}
	into.files = append(into.files, f)
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
// taken its place. mend lets it make the directory accessible to its owner.
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
