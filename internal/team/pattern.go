package team

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxPattern = 512

// CheckPattern refuses patterns that cannot match a file of an assignment's
// tree: they are relative, with forward slashes, and know *, ?, [a-z], {a,b} and
// ** for any number of directories.
func CheckPattern(pattern string) error {
	if err := checkLine(pattern, "pattern"); err != nil {
		return err
	}
	segments := strings.Split(pattern, "/")
	switch {
	case strings.Contains(pattern, `\`):
		return fmt.Errorf("%q has a backslash; separate directories with /", pattern)
	case segments[0] == "":
		return fmt.Errorf("%q is absolute; patterns are relative to the top of the work, like docs/*.md", pattern)
	case segments[len(segments)-1] == "":
		return fmt.Errorf("%q names a directory; write %q for the files in it", pattern, pattern+"**")
	case slices.Contains(segments, ".."):
		return fmt.Errorf("%q leaves the work's directory; patterns go without dot-dot parts", pattern)
	case slices.Contains(segments, "."), slices.Contains(segments, ""):
		return fmt.Errorf("%q has an empty or . part; write the path plainly, like docs/*.md", pattern)
	case segments[0] == ".git":
		return fmt.Errorf("%q is git's own; it is never part of the work", pattern)
	}
	if err := checkBraces(pattern); err != nil {
		return err
	}
	for _, segment := range segments {
		if strings.Contains(segment, "**") && segment != "**" {
			return fmt.Errorf("%q has ** inside %q; it stands for whole directories, as in docs/**/*.md", pattern, segment)
		}
	}
	return checkClasses(pattern)
}

var (
	// classPattern is a choice of characters, like [abc], [a-z] or [!0-9].
	classPattern = regexp.MustCompile(`\[[!^]?(?:[^][{}/!^-](?:-[^][{}/!^-])?)+\]`)
	rangePattern = regexp.MustCompile(`(.)-(.)`)
)

func checkClasses(pattern string) error {
	for _, class := range classPattern.FindAllString(pattern, -1) {
		for _, ends := range rangePattern.FindAllStringSubmatch(class, -1) {
			if ends[1] > ends[2] {
				return fmt.Errorf("%q has the range %s, which holds nothing; write %s-%s", pattern, ends[0], ends[2], ends[1])
			}
		}
	}
	if strings.ContainsAny(classPattern.ReplaceAllString(pattern, ""), "[]") {
		return fmt.Errorf("%q has brackets that are no choice of characters; write one like [a-z] or [!0-9], and ? for a bracket in a name", pattern)
	}
	return nil
}

func checkBraces(pattern string) error {
	open := 0
	for _, r := range pattern {
		switch r {
		case '{':
			open++
		case '}':
			open--
		}
		if open < 0 || open > 1 {
			break
		}
	}
	if open != 0 {
		return fmt.Errorf("%q has braces that do not match, or lie in one another; write alternatives as {a,b}", pattern)
	}
	return nil
}

// checkIgnore refuses gitignore patterns that would do nothing.
func checkIgnore(pattern string) error {
	if err := checkLine(pattern, "pattern"); err != nil {
		return err
	}
	if strings.HasPrefix(pattern, "#") {
		return fmt.Errorf("%q is a comment to gitignore; write \\# for a leading #", pattern)
	}
	return nil
}

// checkLine refuses text that is not one printable line of sensible length.
func checkLine(s, what string) error {
	switch {
	case strings.TrimSpace(s) == "":
		return errors.New("is empty; write a " + what + ", or leave it out")
	case s != strings.TrimSpace(s):
		return fmt.Errorf("%q has spaces around it; leave them out", Shorten(s, 80))
	case len(s) > maxPattern:
		return fmt.Errorf("has %d bytes; a %s has at most %d", len(s), what, maxPattern)
	case !utf8.ValidString(s), strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%q has characters that cannot be printed; a %s is one line of text", Shorten(s, 80), what)
	}
	return nil
}
