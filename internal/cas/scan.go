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
	// listed is what it was last. kept: the content can be remembered by that.
	listed listed
	kept   bool
	// old is what is stored already of the file or link at the path; nil: nothing is.
	old *Entry
}

func (f *found) executable() bool { return f.listed.mode&0o100 != 0 }

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

// all lists the files of a directory, and then those of each below it: those of a directory follow
// each other.
func (l *listing) all() []found {
	all := make([]found, 0, l.count())
	for dir := range l.dirs {
		all = append(all, dir...)
	}
	return all
}

// count is how many files and links there are.
func (l *listing) count() (n int) {
	for dir := range l.dirs {
		n += len(dir)
	}
	return n
}

// dirs yields the files of each directory.
func (l *listing) dirs(yield func([]found) bool) { l.eachDir(yield) }

func (l *listing) eachDir(yield func([]found) bool) bool {
	return yield(l.files) && !slices.ContainsFunc(l.below, func(sub *listing) bool { return !sub.eachDir(yield) })
}

// scanner walks a directory and lists what belongs to its tree.
type scanner struct {
	top directory
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
	leaveOut func(p string, now listed, had bool) bool
	// skipped is told what is passed over as ignored; may be nil. Directories
	// end in a slash.
	skipped func(p string)
	// beside has directories scanned side by side, which then call leaveOut and skipped at the
	// same time; nil: one follows the other.
	beside *errgroup.Group
	limits Limits
	// index waits for what is remembered of the directory; nil: that is nothing.
	index func() *index
	// mend lets the scan make what the directory's owner may not read readable.
	mend  bool
	count atomic.Int64
	// bytes is the size of the files together, and most what it may be; zero: any.
	bytes atomic.Int64
	most  int64
}

// openTop opens a directory as the top of a tree, and not what a link in its
// place points to. It makes the directory accessible to its owner.
func openTop(dir string) (_ directory, err error) {
	root, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return directory{}, err
	}
	defer closing(root, &err)
	above, err := enter(root)
	if err != nil {
		return directory{}, err
	}
	defer closing(above, &err)
	top, err := above.look(filepath.Base(dir))
	if err != nil {
		return directory{}, err
	}
	if !top.mode.IsDir() {
		return directory{}, &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	return openListed(root, top, true)
}

// scan lists the tree.
func (sc *scanner) scan(ctx context.Context) (*listing, error) {
	at := scope{rules: cacheRules(), base: sc.base.top}
	if sc.lower != nil {
		at.lower = sc.lower.top
	}
	var top listing
	err := sc.dir(ctx, sc.top, ".", at, &top)
	if sc.beside != nil {
		err = errors.Join(err, sc.beside.Wait())
	}
	if err != nil {
		return nil, err
	}
	return &top, nil
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
	// remembered is what the index has of the directory.
	remembered remembered
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
func (sc *scanner) dir(ctx context.Context, in directory, dir string, at scope, into *listing) error {
	entries, err := sc.look(ctx, in, dir, &at)
	if err != nil {
		return err
	}
	into.files = make([]found, 0, len(entries))
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := below(dir, e.name)
		if sc.lower.covered(p, e, at.lower) || isGitDir(e.name) {
			continue
		}
		file, below := at.had(e.name)
		if sc.leaveOut != nil && sc.leaveOut(p, e, file != nil && !e.mode.IsDir() || below && e.mode.IsDir()) {
			continue
		}
		if e.mode.IsDir() {
			err = sc.subdir(ctx, in, p, e, at, into)
		} else {
			err = sc.file(in, p, e, at, into)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// look returns what is in a directory, sorted, and adds to the scope what the directory has for it.
func (sc *scanner) look(ctx context.Context, in directory, dir string, at *scope) ([]listed, error) {
	entries, err := in.list()
	if err != nil {
		return nil, ofTree(dir, "listed", err)
	}
	hidden, err := sc.lower.hiddenBy(in.self, dir, at.lower)
	if err != nil {
		return nil, ofTree(dir, "read", err)
	}
	if at.opaque = at.opaque || hidden; !at.ignored {
		at.rules, err = sc.rulesOf(ctx, in, dir, *at, entries)
	}
	if sc.index != nil {
		at.remembered = sc.index().in(dir)
	}
	return entries, err
}

// rulesOf adds a directory's own .gitignore to the rules above it. Links to
// such files do not count, as with git.
func (sc *scanner) rulesOf(ctx context.Context, in directory, dir string, at scope, entries []listed) (*ignoreRules, error) {
	i, ok := slices.BinarySearchFunc(entries, ignoreFile, func(e listed, name string) int {
		return strings.Compare(e.name, name)
	})
	if !ok && !at.opaque {
		return sc.lower.rulesOf(ctx, dir, at)
	}
	if !ok || !entries[i].mode.IsRegular() {
		return at.rules, nil
	}
	p, now := path.Join(dir, ignoreFile), entries[i]
	if now.Size > maxIgnoreFile {
		return nil, ignoreFileTooLarge(p, now.Size)
	}
	f, err := in.openRegular(now, sc.mend)
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

func (sc *scanner) subdir(ctx context.Context, in directory, p string, now listed, at scope, into *listing) error {
	if !at.ignored && sc.isIgnored(p, now.mode, at.rules) {
		at.ignored = true
		if sc.skipped != nil {
			sc.skipped(p + "/")
		}
	}
	_, had := at.had(now.name)
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
	sub, err := openListed(in.Root, now, sc.mend)
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

func (sc *scanner) file(in directory, p string, now listed, at scope, into *listing) error {
	if len(sc.only) > 0 && !sc.only.match(p) {
		return nil
	}
	old, _ := at.had(now.name)
	if (at.ignored || sc.isIgnored(p, now.mode, at.rules)) && !sc.wanted.match(p) && old == nil {
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
	f := found{path: p, listed: now, old: old}
	f.SHA256, f.kept = at.remembered.digest(now)
	switch mode := now.mode; {
	case mode.IsRegular():
		if bytes := sc.bytes.Add(now.Size); sc.most > 0 && bytes > sc.most {
			return treeTooLarge(p, sc.most)
		}
		if f.kept {
			f.Size, f.Executable = now.Size, f.executable()
		}
	case mode&fs.ModeSymlink != 0:
		target, err := in.Readlink(now.name)
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
