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

// isGitDir reports whether a name refers to git's own directory or file. It is never part of a
// tree, whatever the patterns say, because whoever runs git there executes its content. The check
// includes names that some file systems treat as .git: other upper or lower case, invisible
// characters, a colon and what follows it, trailing dots and spaces, and a short name.
func isGitDir(name string) bool {
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimRight(strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf) {
			return -1
		}
		return r
	}, name), " .")
	return strings.EqualFold(name, ".git") || strings.EqualFold(name, "git~1")
}

// ignoreFile has the ignore rules of its directory.
const ignoreFile = ".gitignore"

// maxIgnoreFile is the largest .gitignore that is read, in bytes.
const maxIgnoreFile = 256 << 10

func ignoreFileTooLarge(size int64) string {
	return fmt.Sprintf("has %d bytes; at most %d are allowed", size, maxIgnoreFile)
}

// cacheDirs are directories that tools create and can create again. Their patterns have the
// lowest priority, so a tree's own rules can include them again.
var cacheDirs = []string{"node_modules", ".venv", "__pycache__"}

// buildDir is the directory in which tools build beside one of the buildFiles. Elsewhere a directory with this name may
// have sources.
const buildDir = "target"

var buildFiles = []string{"Cargo.toml", "pom.xml", "build.sbt"}

// withBuilds adds a rule for the directory in which tools build the content of a directory.
func (at scope) withBuilds(dir string, entries []dirItem) *ignoreRules {
	for _, beside := range buildFiles {
		file, _ := at.had(beside)
		if file == nil && !slices.ContainsFunc(entries, func(e dirItem) bool { return e.name == beside }) {
			continue
		}
		return newIgnoreRules(at.rules, dir, ignoreRule{glob: buildDir, literal: true, notFile: true})
	}
	return at.rules
}

// ignoreRule is one line of a .gitignore.
type ignoreRule struct {
	// glob is matched against the path below the rules' directory, or only against its last name.
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
	// dir is the directory of the rules: empty or ending in a slash.
	dir   string
	rules []ignoreRule
	// total counts the rules with those above.
	total int
}

// maxIgnoreRules bounds the rules that apply to one directory: each file is compared with all.
const maxIgnoreRules = 10_000

// parseIgnore parses a .gitignore in dir ("." for the top). Lines that are not valid patterns are
// skipped, as git does.
func parseIgnore(above *ignoreRules, dir, text string) *ignoreRules {
	var rules []ignoreRule
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "\uFEFF"), "\n") {
		if rule, ok := parseIgnoreLine(strings.TrimSuffix(line, "\r")); ok {
			rules = append(rules, rule)
		}
	}
	return newIgnoreRules(above, dir, rules...)
}

// newIgnoreRules adds the rules of a directory, "." for the top, to those above it; nil: there are none.
func newIgnoreRules(above *ignoreRules, dir string, rules ...ignoreRule) *ignoreRules {
	r := &ignoreRules{above: above, rules: rules, total: len(rules)}
	if above != nil {
		r.total += above.total
	}
	if dir != "." {
		r.dir = dir + "/"
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

// toDoublestar translates git's patterns. In these, braces are literal, ** matches directories
// only as a whole part of the path, and a trailing /** matches what is below, not the directory
// itself.
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
			b.WriteByte('/') // a slash must not match a negated class
		}
		star = !escaped && c == '*'
		escaped = !escaped && c == '\\'
	}
	return b.String()
}

// match reports whether the rule applies to the path.
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

// decide applies the last rule that matches the path; deeper .gitignore files take precedence.
// out reports whether the rule excludes the path. Rules for the directories above the path are
// not considered.
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

// excludes reports whether the rules exclude a file, or a directory above it.
func (r *ignoreRules) excludes(p string) bool {
	for i, c := range []byte(p) {
		if c != '/' {
			continue
		}
		if out, _ := r.decide(p[:i], fs.ModeDir); out {
			return true
		}
	}
	out, _ := r.decide(p, 0)
	return out
}

// cacheRules ignore cacheDirs and links with these names, but not files with these names. above are rules with a lower
// priority.
func cacheRules(above *ignoreRules) *ignoreRules {
	var rules []ignoreRule
	for _, name := range cacheDirs {
		rules = append(rules, ignoreRule{glob: name, literal: true, nameOnly: true, notFile: true})
	}
	r := newIgnoreRules(above, ".", rules...)
	r.total -= len(rules) // the limit is for rules of files
	return r
}

// patterns are globs that take precedence over ignore rules.
type patterns []string

// checkPatterns returns an error for a glob with invalid syntax.
func checkPatterns(globs []string) error {
	for _, g := range globs {
		if !doublestar.ValidatePattern(g) {
			return &RefusedError{Path: g, Reason: "is not a usable pattern; write one like docs/**/*.md"}
		}
	}
	return nil
}

// match reports whether a pattern matches the path. A pattern must name each cache directory on
// the path: ** does not match node_modules.
func (ps patterns) match(p string) bool {
	return slices.ContainsFunc(ps, func(glob string) bool {
		return globMatches(glob, p) && namesCaches(glob, p)
	})
}

// below reports whether a pattern could match something below the directory.
func (ps patterns) below(dir string) bool {
	return slices.ContainsFunc(ps, func(glob string) bool {
		return reaches(strings.Split(glob, "/"), strings.Split(dir, "/")) && namesCaches(glob, dir+"/")
	})
}

// reaches reports whether a pattern, split at slashes, could match something below the directory.
// Alternatives that contain slashes are not expanded: such a pattern could match anything.
func reaches(glob, dir []string) bool {
	switch {
	case len(glob) == 0:
		return false
	case len(dir) == 0, glob[0] == "**", strings.Count(glob[0], "{") != strings.Count(glob[0], "}"):
		return true
	}
	return doublestar.MatchUnvalidated(glob[0], dir[0]) && reaches(glob[1:], dir[1:])
}

// namesCaches reports whether the pattern contains the name of every cache directory on the path.
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

// globMatches reports whether a valid pattern matches a path.
func globMatches(glob, p string) bool { return doublestar.MatchUnvalidated(glob, p) }
