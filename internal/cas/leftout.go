package cas

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// leftOut records the paths that a scan leaves out. It is safe for concurrent use.
type leftOut struct {
	mu                   sync.Mutex
	skipped, secret, odd []string
}

func (l *leftOut) note(list *[]string, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*list = append(*list, what)
}

func (l *leftOut) ignored(p string) { l.note(&l.skipped, p) }
func (l *leftOut) private(p string) { l.note(&l.secret, p) }

// cannotKeep notes a path that no tree can hold, and the reason.
func (l *leftOut) cannotKeep(p, why string) { l.note(&l.odd, fmt.Sprintf("%q: %s", p, why)) }

func (l *leftOut) sort() {
	slices.Sort(l.skipped)
	slices.Sort(l.secret)
	slices.Sort(l.odd)
}

// leave leaves out something that no tree can hold. What was asked for by name is an error instead.
func (sc *scanner) leave(p, why string) error {
	if sc.wanted.match(p) || sc.odd == nil {
		return &RefusedError{p, why}
	}
	sc.odd(p, why)
	return nil
}

// linkInside returns the target of the link at p as a tree holds it: relative, with .. only at its beginning. Tools make
// links with the full path of what is in the tree, or with .. behind a name.
func (sc *scanner) linkInside(p, target string) (string, error) {
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
	} else if !sc.isPlainWay(path.Dir(p), target) {
		return "", err
	}
	relative, wrong := filepath.Rel(path.Dir(p), "./"+inside)
	if wrong != nil || CheckLink(p, relative) != nil {
		return "", err
	}
	return relative, nil
}

// isPlainWay reports whether no part of a target before a .. is itself a link, behind which .. could lead anywhere.
func (sc *scanner) isPlainWay(at, target string) bool {
	for part := range strings.SplitSeq(target, "/") {
		at = path.Join(at, part)
		info, err := sc.top.Lstat(at)
		if part != ".." && (err != nil || info.Mode()&fs.ModeSymlink != 0) && !strings.HasSuffix(target, "/"+part) {
			return false
		}
	}
	return true
}
