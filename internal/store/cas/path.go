package cas

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The limits of names in a tree, in bytes.
const (
	MaxPath = 1024
	// maxPaths is how long the paths of all files of a tree may be together, in bytes: documents list them.
	maxPaths = 64 << 20
	MaxName  = 255
)

// CheckPath returns an error if a tree cannot hold the path: it is absolute, not clean, leaves
// the tree, is too long or unprintable, or belongs to git itself.
func CheckPath(p string) error {
	switch {
	case p == "":
		return errors.New("the path is empty")
	case len(p) > MaxPath:
		return fmt.Errorf("the path has %d bytes; at most %d are allowed", len(p), MaxPath)
	}
	if err := checkText(p); err != nil {
		return fmt.Errorf("the path %w", err)
	}
	if p[0] == '/' {
		return errors.New("the path is absolute; paths are relative to the top of the tree")
	}
	for rest := p; rest != ""; {
		name, tail, more := strings.Cut(rest, "/")
		if err := checkComponent(name); err != nil {
			return err
		}
		if more && tail == "" {
			return errors.New("the path ends with a slash")
		}
		rest = tail
	}
	return nil
}

func checkComponent(name string) error {
	switch {
	case name == "", name == ".":
		return errors.New("the path has an empty or . part")
	case name == "..":
		return errors.New("the path has a .. part; it must stay inside the tree")
	case isGitDir(name):
		return errors.New("the path belongs to git itself, which is not part of a tree")
	case len(name) > MaxName:
		return fmt.Errorf("the path has a name of %d bytes; at most %d are allowed", len(name), MaxName)
	}
	return nil
}

// CheckLink returns an error if the link at p could lead out of the tree. The target must be
// relative, may have .. only at its beginning, and must not lead above the top. (After a name
// that is itself a link, .. could lead anywhere.)
func CheckLink(p, target string) error {
	up, err := checkTarget(target)
	if err == nil && up > strings.Count(path.Clean(p), "/") {
		err = errors.New("the link leads out of the tree")
	}
	return err
}

// checkTarget returns an error for a link target that is not valid anywhere in a tree. up is the
// number of leading .. parts.
func checkTarget(target string) (up int, err error) {
	switch {
	case target == "":
		return 0, errors.New("the link has no target")
	case len(target) > MaxPath:
		return 0, fmt.Errorf("the link's target has %d bytes; at most %d are allowed", len(target), MaxPath)
	case target[0] == '/':
		return 0, errors.New("the link is absolute; links must be relative and stay inside the tree")
	}
	if err := checkText(target); err != nil {
		return 0, fmt.Errorf("the link's target %w", err)
	}
	named := false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if named {
				return 0, errors.New("the link's target has .. after a name; use .. only at its start")
			}
			up++
		default:
			named = true
		}
	}
	return up, nil
}

// checkText returns an error for text that is not printable UTF-8.
func checkText(s string) error {
	switch {
	case strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("has control characters")
	case !utf8.ValidString(s):
		return errors.New("is not valid UTF-8")
	}
	return nil
}
