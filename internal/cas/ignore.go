package cas

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/bmatcuk/doublestar/v4"
)

// isGitDir reports whether a name is that of git's own directory or file: never part
// of a tree, whatever patterns say, since what it holds is executed by whoever runs
// git there. Some file systems take .GIT for the same, or leave out what is not seen, or
// what stands behind a colon and dots and spaces at the end, or have a short name for it;
// and a tree may come to one.
func isGitDir(name string) bool {
	if name != "" && name[0] < unicode.MaxASCII && !strings.ContainsRune(".gG", rune(name[0])) {
		return false // as nearly all names
	}
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimRight(strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf) {
			return -1
		}
		return r
	}, name), " .")
	return strings.EqualFold(name, ".git") || strings.EqualFold(name, "git~1")
}

// ignoreFile has the rules of the directory in which it lies.
const ignoreFile = ".gitignore"

// maxIgnoreFile is the largest .gitignore that is read, in bytes.
const maxIgnoreFile = 256 << 10

func ignoreFileTooLarge(p string, size int64) error {
	return &RefusedError{p, fmt.Sprintf("has %d bytes; at most %d are allowed", size, maxIgnoreFile)}
}

// cacheDirs are the directories that tools fill and can fill again. As patterns
// they come before all others, so that a tree's own can take them back.
var cacheDirs = []string{"node_modules", ".venv", "target", "__pycache__"}

// ignoreRule is one line of a .gitignore.
type ignoreRule struct {
	// glob is matched against the path below the rules' directory, or only
	// against the last name of it.
	glob     string
	literal  bool
	nameOnly bool
	dirOnly  bool
	notFile  bool
	negated  bool
}

// ignoreRules are the rules of one .gitignore and of those above it.
type ignoreRules struct {
	above *ignoreRules
	// dir is where the rules stand: empty or ending in a slash.
	dir   string
	rules []ignoreRule
}

// parseIgnore reads the lines of a .gitignore that stands in dir ("." for the
// top). What git cannot understand either is passed over, as git does.
func parseIgnore(above *ignoreRules, dir, text string) *ignoreRules {
	r := &ignoreRules{above: above}
	if dir != "." {
		r.dir = dir + "/"
	}
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "\uFEFF"), "\n") {
		if rule, ok := parseIgnoreLine(strings.TrimSuffix(line, "\r")); ok {
			r.rules = append(r.rules, rule)
		}
	}
	return r
}

func parseIgnoreLine(line string) (ignoreRule, bool) {
	var r ignoreRule
	line = trimSpaces(line)
	if line == "" || line[0] == '#' {
		return r, false
	}
	if line[0] == '!' {
		r.negated = true
		line = line[1:]
	}
	if strings.HasSuffix(line, "/") {
		r.dirOnly = true
		line = strings.TrimSuffix(line, "/")
	}
	if line == "" {
		return r, false
	}
	r.nameOnly = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	r.literal = !strings.ContainsAny(line, `*?[\`)
	r.glob = line
	if !r.literal {
		r.glob = toDoublestar(line)
	}
	return r, r.literal || doublestar.ValidatePattern(r.glob)
}

// trimSpaces removes trailing spaces that are not escaped by a backslash.
func trimSpaces(line string) string {
	trimmed := strings.TrimRight(line, " ")
	slashes := len(trimmed) - len(strings.TrimRight(trimmed, `\`))
	if slashes%2 == 1 && len(trimmed) < len(line) {
		return trimmed + " "
	}
	return trimmed
}

var characterClasses = strings.NewReplacer(
	"[:alpha:]", "a-zA-Z", "[:digit:]", "0-9", "[:alnum:]", "a-zA-Z0-9", "[:upper:]", "A-Z",
	"[:lower:]", "a-z", "[:xdigit:]", "0-9a-fA-F", "[:space:]", " \t\r\n\f\v",
)

// toDoublestar translates git's patterns: braces mean themselves there, stars
// are directories only where they stand alone, and a trailing /** means what is
// below, not the directory itself.
func toDoublestar(glob string) string {
	parts := strings.Split(characterClasses.Replace(glob), "/")
	for i, part := range parts {
		if len(part) > 1 && strings.Trim(part, "*") == "" {
			parts[i] = "**"
			continue
		}
		parts[i] = translatePart(part)
	}
	if parts[len(parts)-1] == "**" {
		parts = append(parts, "*")
	}
	return strings.Join(parts, "/")
}

func translatePart(part string) string {
	var b strings.Builder
	escaped, star := false, false
	for i := range len(part) {
		c := part[i]
		if !escaped && star && c == '*' {
			continue
		}
		if !escaped && (c == '{' || c == '}') {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
		if !escaped && (c == '!' || c == '^') && i > 0 && part[i-1] == '[' {
			b.WriteByte('/') // no class holds it
		}
		star = !escaped && c == '*'
		escaped = !escaped && c == '\\'
	}
	return b.String()
}

// match reports whether the rule is about the path.
func (r ignoreRule) match(below, name string, kind fs.FileMode) bool {
	if r.dirOnly && !kind.IsDir() || r.notFile && kind.IsRegular() {
		return false
	}
	if r.nameOnly {
		below = name
	}
	if r.literal {
		return r.glob == below
	}
	return doublestar.MatchUnvalidated(r.glob, below)
}

// decide finds the last rule about the path, the deepest first, and tells
// whether it leaves the path out. Directories above the path are not considered.
func (r *ignoreRules) decide(p string, kind fs.FileMode) (out, decided bool) {
	name := path.Base(p)
	for ; r != nil; r = r.above {
		below := p[len(r.dir):]
		for i := range slices.Backward(r.rules) {
			if r.rules[i].match(below, name, kind) {
				return !r.rules[i].negated, true
			}
		}
	}
	return false, false
}

// cacheRules ignore the directories that tools fill, and links in their place,
// but not files that happen to have such a name.
func cacheRules() *ignoreRules {
	r := &ignoreRules{}
	for _, name := range cacheDirs {
		r.rules = append(r.rules, ignoreRule{glob: name, literal: true, nameOnly: true, notFile: true})
	}
	return r
}

// patterns are globs that are looked for whatever is ignored.
type patterns []string

// checkPatterns refuses globs that can match nothing.
func checkPatterns(globs []string) error {
	for _, g := range globs {
		if !doublestar.ValidatePattern(g) {
			return &RefusedError{Path: g, Reason: "is not a usable pattern; write one like docs/**/*.md"}
		}
	}
	return nil
}

// match reports whether a pattern matches the path. A cache directory on the way
// must be named in the pattern: ** does not mean to look into node_modules.
func (ps patterns) match(p string) bool {
	return slices.ContainsFunc(ps, func(glob string) bool {
		return globMatches(glob, p) && namesCaches(glob, p)
	})
}

// below reports whether a pattern could match something under the directory.
func (ps patterns) below(dir string) bool {
	return slices.ContainsFunc(ps, func(glob string) bool {
		return reaches(strings.Split(glob, "/"), strings.Split(dir, "/")) && namesCaches(glob, dir+"/")
	})
}

// reaches reports whether a pattern, given by its parts, could match something
// under the directory. Alternatives that hold slashes are not taken apart: what
// has them may reach anywhere.
func reaches(glob, dir []string) bool {
	switch {
	case len(glob) == 0:
		return false
	case len(dir) == 0, glob[0] == "**", strings.Count(glob[0], "{") != strings.Count(glob[0], "}"):
		return true
	}
	return doublestar.MatchUnvalidated(glob[0], dir[0]) && reaches(glob[1:], dir[1:])
}

// namesCaches reports whether the pattern spells out every cache directory that
// lies on the path.
func namesCaches(glob, p string) bool {
	for rest := p; ; {
		name, tail, more := strings.Cut(rest, "/")
		if !more {
			return true
		}
		if slices.Contains(cacheDirs, name) && !strings.Contains(glob, name) {
			return false
		}
		rest = tail
	}
}

// globMatches reports whether a sound pattern matches a path.
func globMatches(glob, p string) bool { return doublestar.MatchUnvalidated(glob, p) }
