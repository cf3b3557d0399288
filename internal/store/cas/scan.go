package cas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// found is a file or link that a scan found.
type found struct {
	path string
	// Entry describes it; the content of a file is set once it is stored.
	Entry
	// listed is its metadata.
	listed dirItem
	// old is the entry that the trees have at the path; nil: none. keeps: the file itself cannot be kept, and old is.
	old   *Entry
	keeps bool
}

// before returns the entry that the trees have at the path; zero: none.
func (f *found) before() Entry {
	if f.old == nil {
		return Entry{}
	}
	return *f.old
}

// scanner walks a directory and lists the files and links that belong to its tree.
type scanner struct {
	top *os.Root
	// extra are gitignore rules that take precedence over those of the tree.
	extra *ignoreRules
	// wanted are patterns of files that are listed even if they are ignored.
	wanted patterns
	// only, if not empty, restricts the list to these patterns.
	only patterns
	// base is the tree that the directory was filled from. Its files are listed even if they are
	// ignored.
	base *Tree
	// lower is the lower tree of an overlay if the directory is the upper layer; nil: the
	// directory is a whole tree.
	lower *lowerTree
	// exclude reports whether to skip a file or directory, and notes it. had reports whether the trees have it.
	// nil: nothing is skipped.
	exclude func(p string, now dirItem, had bool) bool
	// left notes what is left out.
	left *leftOut
	// roots are the paths at which the tree was seen: absolute links below them are made relative.
	roots []string
	// beneath are rules with a lower priority than those of the tree.
	beneath *ignoreRules
	limits  Limits
	// fixModes allows the scan to make files readable and directories accessible for their owner.
	fixModes bool
	// files are those that were found.
	files []found
	// names is the length of the paths of these files, in bytes.
	names int
	// bytes is the total size of the files, and most its limit; zero: no limit.
	bytes, most int64
}

// scan lists the tree, each directory's entries by their names.
func (sc *scanner) scan(ctx context.Context) error {
	at := scope{rules: cacheRules(sc.beneath), base: sc.base.top}
	if sc.lower != nil {
		at.lower = sc.lower.top
	}
	return sc.dir(ctx, sc.top, ".", at)
}

// scope is the state that a directory inherits from those above it.
type scope struct {
	rules *ignoreRules
	// ignored: a directory above is ignored, so only wanted files and files of the trees are
	// listed.
	ignored bool
	// told: a directory above was reported as ignored.
	told bool
	// opaque: a directory above hides the lower tree below it.
	opaque bool
	// base and lower are the directory in these trees; nil: the tree does not have it.
	base, lower *treeDir
}

// had returns the file or link of this name in the trees, and whether one of them has a directory
// of this name.
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

// dir lists one directory and those below it.
func (sc *scanner) dir(ctx context.Context, in *os.Root, dir string, at scope) error {
	entries, err := sc.readDir(ctx, in, dir, &at)
	if errors.Is(err, fs.ErrPermission) && !sc.fixModes && dir != "." {
		return sc.leave(dir+"/", cannotBeRead)
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := below(dir, e.name)
		if sc.lower.noteCovered(p, e, at.lower) {
			continue
		}
		if isGitDir(e.name) {
			if dir != "." && !at.ignored && len(sc.only) == 0 {
				if err := sc.leave(p, "belongs to git itself"); err != nil {
					return err
				}
			}
			continue
		}
		file, below := at.had(e.name)
		if sc.exclude != nil && sc.exclude(p, e, file != nil && !e.mode.IsDir() || below && e.mode.IsDir()) {
			continue
		}
		if e.mode.IsDir() {
			err = sc.subdir(ctx, in, p, e, at)
		} else {
			err = sc.file(ctx, in, p, e, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readDir returns the entries of a directory, sorted, and adds the directory's own rules to the scope.
func (sc *scanner) readDir(ctx context.Context, in *os.Root, dir string, at *scope) ([]dirItem, error) {
	entries, err := list(in)
	if err != nil {
		return nil, ofTree(dir, "listed", err)
	}
	hidden, err := sc.lower.noteOpaque(in, dir, at.lower)
	if err != nil {
		return nil, ofTree(dir, "read", err)
	}
	if at.opaque = at.opaque || hidden; !at.ignored {
		at.rules = at.withBuilds(dir, entries)
		at.rules, err = sc.rulesOf(ctx, in, dir, *at, entries)
	}
	return entries, err
}

// rulesOf adds a directory's own .gitignore to the rules above it. A .gitignore that is a link is
// not read, as with git.
func (sc *scanner) rulesOf(ctx context.Context, in *os.Root, dir string, at scope, entries []dirItem) (*ignoreRules, error) {
	i, ok := slices.BinarySearchFunc(entries, ignoreFile, func(e dirItem, name string) int {
		return strings.Compare(e.name, name)
	})
	if !ok && !at.opaque {
		return sc.lowerRules(ctx, dir, at)
	}
	if !ok || !entries[i].mode.IsRegular() {
		return at.rules, nil
	}
	p, now := path.Join(dir, ignoreFile), entries[i]
	if now.size > maxIgnoreFile {
		return sc.noRules(at, p, ignoreFileTooLarge(now.size)), nil
	}
	f, err := openFile(in, now, sc.fixModes)
	if errors.Is(err, fs.ErrPermission) {
		return sc.noRules(at, p, cannotBeRead), nil
	}
	if err != nil {
		return nil, ofTree(p, "read", err)
	}
	defer f.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	if replaced := checkSame(f, now); replaced != nil {
		err = replaced
	}
	if err != nil {
		return nil, ofTree(p, "read", err)
	}
	return sc.withRules(at, p, string(text)), nil
}

// withRules adds the rules of the .gitignore at a path.
func (sc *scanner) withRules(at scope, p, text string) *ignoreRules {
	r := parseIgnore(at.rules, path.Dir(p), text)
	if r.total > maxIgnoreRules {
		return sc.noRules(at, p, fmt.Sprintf("makes %d rules with those above it; at most %d are allowed", r.total, maxIgnoreRules))
	}
	return r
}

func (sc *scanner) isIgnored(p string, kind fs.FileMode, rules *ignoreRules) bool {
	out, decided := sc.extra.decide(p, kind)
	if !decided {
		out, _ = rules.decide(p, kind)
	}
	return out
}

func (sc *scanner) subdir(ctx context.Context, in *os.Root, p string, now dirItem, at scope) error {
	if !at.ignored && sc.isIgnored(p, now.mode, at.rules) {
		at.ignored = true
	}
	_, had := at.had(now.name)
	if at.ignored && !at.told && !had {
		at.told = true
		sc.left.ignored(p + "/")
	}
	if at.ignored && !sc.wanted.below(p) && !had || len(sc.only) > 0 && !sc.only.below(p) {
		return nil
	}
	if len(p) > MaxPath {
		return sc.leave(p, fmt.Sprintf("is a path of %d bytes; at most %d are allowed", len(p), MaxPath))
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
	sub, err := openListed(in, now, sc.fixModes)
	if errors.Is(err, fs.ErrPermission) && (!sc.fixModes || !had) { // else its files would count as removed
		return sc.leave(p+"/", cannotBeRead)
	}
	if err != nil {
		return ofTree(p, "opened", err)
	}
	defer sub.Close() //nolint:errcheck // only read
	return sc.dir(ctx, sub, p, at)
}

func (sc *scanner) file(ctx context.Context, in *os.Root, p string, now dirItem, at scope) error {
	if len(sc.only) > 0 && !sc.only.match(p) {
		return nil
	}
	old, _ := at.had(now.name)
	if (at.ignored || sc.isIgnored(p, now.mode, at.rules)) && !sc.wanted.match(p) && old == nil {
		if !at.told {
			sc.left.ignored(p)
		}
		return nil
	}
	if err := CheckPath(p); err != nil {
		return sc.leave(p, "cannot be kept: "+err.Error())
	}
	if len(sc.files) >= sc.limits.Files {
		return tooManyFiles(p, sc.limits.Files)
	}
	if sc.names += len(p); sc.names > maxPaths {
		return &RefusedError{p, fmt.Sprintf("makes the paths of all files longer than %d MB; shorten names, or ignore some",
			maxPaths>>20)}
	}
	f := found{path: p, listed: now, old: old}
	switch mode := now.mode; {
	case mode.IsRegular():
		if (!sc.fixModes || old == nil) && !sc.readable(in, now) {
			return sc.leave(p, cannotBeRead)
		}
		if size := now.size; size > sc.limits.FileBytes && (old == nil || old.Size != size) {
			if f.keeps = f.before() != (Entry{}); !f.keeps {
				return sc.leave(p, tooLarge(size, sc.limits.FileBytes))
			}
			if err := sc.leave(p, tooLarge(size, sc.limits.FileBytes)+"; its old version is kept"); err != nil {
				return err
			}
			f.Entry, now.size = *old, old.Size
		}
		if sc.bytes += now.size; sc.most > 0 && sc.bytes > sc.most {
			return treeTooLarge(p, sc.most)
		}
	case mode&fs.ModeSymlink != 0:
		target, err := in.Readlink(now.name)
		if err != nil {
			return ofTree(p, "read", err)
		}
		if f.Link, err = sc.linkInside(ctx, p, target); err != nil {
			return sc.leave(p, "is a link to "+strconv.Quote(target)+" and cannot be kept: "+err.Error())
		}
	default:
		return sc.leave(p, "is a "+kindOf(mode)+"; only files and links can be kept")
	}
	sc.files = append(sc.files, f)
	return nil
}

// cannotBeRead is why a file or directory is left out that belongs to another user, or that its owner has locked.
const cannotBeRead = "cannot be read: permission denied"

// tooManyFiles returns the error for the file that exceeds the limit of files.
func tooManyFiles(p string, most int) error {
	return &RefusedError{p, fmt.Sprintf("exceeds the limit of %d files; exclude files with .gitignore or ignore: in the team file",
		most)}
}

// treeTooLarge returns the error for the file that exceeds the limit of bytes.
func treeTooLarge(p string, most int64) error {
	return &RefusedError{p, fmt.Sprintf("makes the tree larger than %d bytes; remove or ignore files, or raise limits.tree_bytes "+
		"in the worker file", most)}
}

// kindOf names the kind of a file that is not a directory, for messages.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode&fs.ModeSymlink != 0:
		return "link"
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

// errChanged says that a file or directory was changed while it was read.
var errChanged = errors.New("it is being changed at the same time")
