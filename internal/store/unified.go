package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/team"
)

// maxCompared is the largest file, in bytes, that is compared line by line.
const maxCompared = 1 << 20

// UnifiedDiff describes how one tree differs from another, for people and models,
// in about limit bytes at most. Files that are no text or too large are only
// named, and so is what no longer fits.
func (s *Store) UnifiedDiff(ctx context.Context, from, to team.Digest, limit int) (string, error) {
	before, err := s.Manifest(ctx, from)
	if err != nil {
		return "", err
	}
	after, err := s.Manifest(ctx, to)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, path := range slices.Sorted(maps.Keys(Diff(before, after))) {
		piece, err := s.describe(ctx, path, before, after)
		if err != nil {
			return "", err
		}
		if text.Len()+len(piece) > limit {
			piece = fmt.Sprintf("%s: changed; the difference is left out here\n", path)
		}
		if text.Len()+len(piece) > limit {
			text.WriteString("… and more files\n")
			break
		}
		text.WriteString(piece)
	}
	return text.String(), nil
}

// describe says how one path differs: line by line, or where that says nothing
// in one line.
func (s *Store) describe(ctx context.Context, path string, before, after Manifest) (string, error) {
	old, had := before[path]
	now, has := after[path]
	switch {
	case old.Link != "" || now.Link != "":
		return fmt.Sprintf("%s: %s, now %s\n", path, sortOf(old, had), sortOf(now, has)), nil
	case old.Size > maxCompared || now.Size > maxCompared:
		return fmt.Sprintf("%s: %d bytes, now %d\n", path, old.Size, now.Size), nil
	}
	oldText, err := s.content(ctx, old, had)
	if err != nil {
		return "", err
	}
	newText, err := s.content(ctx, now, has)
	if err != nil {
		return "", err
	}
	switch {
	case !isText(oldText) || !isText(newText):
		return fmt.Sprintf("%s: no text; %d bytes, now %d\n", path, old.Size, now.Size), nil
	case oldText == newText && had == has:
		return fmt.Sprintf("%s: executable %t, now %t\n", path, old.Executable, now.Executable), nil
	case oldText == newText: // an empty file came or went
		return fmt.Sprintf("--- %s\n+++ %s\n", sideName("a/", path, had), sideName("b/", path, has)), nil
	}
	u, err := unified(path, had, has, oldText, newText)
	return u.String(), err
}

// unified compares two texts line by line. What is absent bears the name /dev/null.
func unified(path string, had, has bool, oldText, newText string) (udiff.UnifiedDiff, error) {
	u, err := udiff.ToUnifiedDiff(sideName("a/", path, had), sideName("b/", path, has),
		oldText, udiff.Lines(oldText, newText), udiff.DefaultContextLines)
	if err != nil {
		return u, fmt.Errorf("compare %s: %w", path, err)
	}
	return u, nil
}

// sideName names one side of a difference as git does: a name with a space is
// closed by a tab, so that programs know where it ends.
func sideName(prefix, path string, present bool) string {
	if !present {
		return "/dev/null"
	}
	name := gitName(prefix + path)
	if strings.ContainsRune(name, ' ') {
		name += "\t"
	}
	return name
}

// gitName is a name as git writes it: quoted where it has what ends or begins a
// quoted name, or what is not seen.
func gitName(name string) string {
	if !strings.ContainsAny(name, `"\`) && safetext.Name(name) == name {
		return name
	}
	var b strings.Builder
	for _, r := range name {
		switch character := string(r); {
		case r == '"' || r == '\\':
			b.WriteString(`\` + character)
		case safetext.Name(character) != character:
			for _, c := range []byte(character) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		default:
			b.WriteString(character)
		}
	}
	return `"` + b.String() + `"`
}

// isText tells whether a content is text that can be compared by lines.
func isText(content string) bool {
	return utf8.ValidString(content) && !strings.ContainsRune(content, 0)
}

func sortOf(e Entry, present bool) string {
	switch {
	case !present:
		return "absent"
	case e.Link != "":
		return "a link to " + e.Link
	}
	return "a file"
}

// content is a file's content or a link's target; empty for what is absent.
func (s *Store) content(ctx context.Context, e Entry, present bool) (string, error) {
	if !present || e.Link != "" || e.Size == 0 {
		return e.Link, nil
	}
	data, err := s.Blob(ctx, e.SHA256)
	return string(data), err
}
