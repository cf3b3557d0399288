package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	udiff "github.com/aymanbagabas/go-udiff"

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
	changed := Diff(before, after)
	var text strings.Builder
	for _, path := range slices.Sorted(maps.Keys(changed)) {
		piece, err := s.compare(ctx, path, before, after)
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

// compare describes how one path differs.
func (s *Store) compare(ctx context.Context, path string, before, after Manifest) (string, error) {
	old, had := before[path]
	now, has := after[path]
	switch {
	case old.Link != "" || now.Link != "":
		return fmt.Sprintf("%s: %s, now %s\n", path, sortOf(old, had), sortOf(now, has)), nil
	case old.Size > maxCompared || now.Size > maxCompared:
		return fmt.Sprintf("%s: %d bytes, now %d\n", path, old.Size, now.Size), nil
	}
	oldText, err := s.text(ctx, old, had)
	if err != nil {
		return "", err
	}
	newText, err := s.text(ctx, now, has)
	if err != nil {
		return "", err
	}
	if !utf8.ValidString(oldText) || !utf8.ValidString(newText) || strings.ContainsRune(oldText+newText, 0) {
		return fmt.Sprintf("%s: no text; %d bytes, now %d\n", path, old.Size, now.Size), nil
	}
	if oldText == newText && had == has {
		return fmt.Sprintf("%s: executable %t, now %t\n", path, old.Executable, now.Executable), nil
	}
	from, to := "a/"+path, "b/"+path
	if !had {
		from = "/dev/null"
	}
	if !has {
		to = "/dev/null"
	}
	if oldText == newText {
		return fmt.Sprintf("--- %s\n+++ %s\n", from, to), nil // an empty file came or went
	}
	return udiff.Unified(from, to, oldText, newText), nil
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

func (s *Store) text(ctx context.Context, e Entry, present bool) (string, error) {
	if !present || e.Size == 0 {
		return "", nil
	}
	data, err := s.Blob(ctx, e.SHA256)
	return string(data), err
}
