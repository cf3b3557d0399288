package cas

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// leftOut records the paths that a scan leaves out.
type leftOut struct{ skipped, secret, odd []string }

func (l *leftOut) ignored(p string) { l.skipped = append(l.skipped, p) }
func (l *leftOut) private(p string) { l.secret = append(l.secret, p) }

// cannotKeep notes a path that no tree can hold, and the reason.
func (l *leftOut) cannotKeep(p, why string) { l.odd = append(l.odd, fmt.Sprintf("%q: %s", p, why)) }

func (l *leftOut) sort() {
	slices.Sort(l.skipped)
	slices.Sort(l.secret)
	slices.Sort(l.odd)
}

// leave leaves out something that no tree can hold. It is an error instead if it was asked for by its name: a pattern that
// happens to match it asks for files.
func (sc *scanner) leave(p, why string) error {
	if slices.Contains(sc.wanted, p) && !strings.ContainsAny(p, `*?[{\`) {
		return &RefusedError{p, why}
	}
	sc.left.cannotKeep(p, why)
	return nil
}

// noRules leaves out the rules of a .gitignore that cannot be read. Its files are in the tree then: a part of the rules
// would decide otherwise than the whole, and nothing is left out because of a rule that nobody knows.
func (sc *scanner) noRules(at scope, p, why string) *ignoreRules {
	sc.left.cannotKeep(p, "its ignore rules do not count: it "+why)
	return at.rules
}

// readable reports whether a file can be read, or be made readable.
func (sc *scanner) readable(in *os.Root, now dirItem) bool {
	const all = 0o444
	if now.mode.Perm()&all == all {
		return true
	}
	if f, err := openFile(in, now, false); err == nil {
		return f.Close() == nil
	}
	return sc.fixModes && in.Chmod(now.name, now.mode.Perm()|0o600) == nil
}

// linkInside returns the target of the link at p as a tree holds it: relative, with .. only at its beginning. Tools make
// links with the full path of what is in the tree, or with .. behind a name.
func (sc *scanner) linkInside(ctx context.Context, p, target string) (string, error) {
	err := CheckLink(p, target)
	if err == nil || target == "" || len(target) > MaxPath {
		return target, err
	}
	inside := path.Join(path.Dir(p), target)
	if path.IsAbs(target) {
		i := slices.IndexFunc(sc.roots, func(root string) bool { return strings.HasPrefix(target+"/", root+"/") })
		if i < 0 || path.Clean(target) != target {
			return "", err
		}
		inside = strings.TrimPrefix(strings.TrimPrefix(target, sc.roots[i]), "/")
	} else if !sc.isPlainWay(ctx, path.Dir(p), target) {
		return "", err
	}
	relative, wrong := filepath.Rel(path.Dir(p), "./"+inside)
	if wrong != nil || CheckLink(p, relative) != nil {
		return "", err
	}
	return relative, nil
}

// isPlainWay reports whether no part of a target before a .. is itself a link, behind which .. could lead anywhere.
func (sc *scanner) isPlainWay(ctx context.Context, at, target string) bool {
	parts := strings.Split(target, "/")
	for i, part := range parts {
		at = path.Join(at, part)
		if part == ".." || i == len(parts)-1 {
			continue
		}
		if link, known := sc.isLink(ctx, at); link || !known {
			return false
		}
	}
	return true
}

// isLink reports whether a path is a link, in the directory or, where that is the upper layer of an overlay, in the tree
// below it. known is false if there is nothing at the path.
func (sc *scanner) isLink(ctx context.Context, p string) (link, known bool) {
	info, err := sc.top.Lstat(p)
	if err == nil {
		return info.Mode()&fs.ModeSymlink != 0, info.Mode()&fs.ModeCharDevice == 0 // which a whiteout is
	}
	if sc.lower == nil || !errors.Is(err, fs.ErrNotExist) || sc.hidden(path.Dir(p)) {
		return false, false
	}
	e, err := sc.lower.find(ctx, p)
	if err != nil || e == nil {
		return false, false
	}
	return e.Link != "", true
}

// hidden reports whether a directory of the upper layer hides what the tree below has in it.
func (sc *scanner) hidden(dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		info, err := sc.top.Lstat(dir)
		if err != nil {
			continue // it is of the tree below
		}
		if !info.IsDir() {
			return true
		}
		sub, err := sc.top.OpenRoot(dir)
		if err != nil {
			return true
		}
		opaque, err := isOpaque(sub)
		if _ = sub.Close(); opaque || err != nil {
			return true
		}
	}
	return false
}
