package store

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/maestro-hive/maestro/internal/team"
)

// maxCompared is the largest file, in bytes, that is compared line by line.
const maxCompared = 1 << 20

// PathDiff is how two trees differ at one path.
type PathDiff struct {
	Path string
	// Had and Has tell whether there is something at the path in the first and
	// in the second tree.
	Had, Has bool
	// Added and Removed count lines; both are zero for what is not compared by lines.
	Added, Removed int
	// Text is the unified difference. Links, files that are no text and those
	// that are too large are described in one line.
	Text string
}

// PathDiffs describes how one tree differs from another, path by path in order.
// The first error ends it.
func (s *Store) PathDiffs(ctx context.Context, from, to team.Digest) iter.Seq2[PathDiff, error] {
	return func(yield func(PathDiff, error) bool) {
		before, err := s.Manifest(ctx, from)
		if err != nil {
			yield(PathDiff{}, err)
			return
		}
		after, err := s.Manifest(ctx, to)
		if err != nil {
			yield(PathDiff{}, err)
			return
		}
		for _, path := range slices.Sorted(maps.Keys(Diff(before, after))) {
			d, err := s.compare(ctx, path, before, after)
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// UnifiedDiff describes how one tree differs from another, for people and models,
// in about limit bytes at most. Files that are no text or too large are only
// named, and so is what no longer fits.
func (s *Store) UnifiedDiff(ctx context.Context, from, to team.Digest, limit int) (string, error) {
	var text strings.Builder
	for d, err := range s.PathDiffs(ctx, from, to) {
		if err != nil {
			return "", err
		}
		piece := d.Text
		if text.Len()+len(piece) > limit {
			piece = fmt.Sprintf("%s: changed; the difference is left out here\n", d.Path)
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
func (s *Store) compare(ctx context.Context, path string, before, after Manifest) (PathDiff, error) {
	old, had := before[path]
	now, has := after[path]
	d := PathDiff{Path: path, Had: had, Has: has}
	switch {
	case old.Link != "" || now.Link != "":
		d.Text = fmt.Sprintf("%s: %s, now %s\n", path, sortOf(old, had), sortOf(now, has))
		return d, nil
	case old.Size > maxCompared || now.Size > maxCompared:
		d.Text = fmt.Sprintf("%s: %d bytes, now %d\n", path, old.Size, now.Size)
		return d, nil
	}
	oldText, err := s.text(ctx, old, had)
	if err != nil {
		return d, err
	}
	newText, err := s.text(ctx, now, has)
	if err != nil {
		return d, err
	}
	if !utf8.ValidString(oldText) || !utf8.ValidString(newText) || strings.ContainsRune(oldText+newText, 0) {
		d.Text = fmt.Sprintf("%s: no text; %d bytes, now %d\n", path, old.Size, now.Size)
		return d, nil
	}
	if oldText == newText && had == has {
		d.Text = fmt.Sprintf("%s: executable %t, now %t\n", path, old.Executable, now.Executable)
		return d, nil
	}
	err = d.lines(oldText, newText)
	return d, err
}

// lines compares two texts line by line.
func (d *PathDiff) lines(oldText, newText string) error {
	from, to := "a/"+d.Path, "b/"+d.Path
	if !d.Had {
		from = "/dev/null"
	}
	if !d.Has {
		to = "/dev/null"
	}
	if oldText == newText {
		d.Text = fmt.Sprintf("--- %s\n+++ %s\n", from, to) // an empty file came or went
		return nil
	}
	u, err := udiff.ToUnifiedDiff(from, to, oldText, udiff.Lines(oldText, newText), udiff.DefaultContextLines)
	if err != nil {
		return fmt.Errorf("compare %s: %w", d.Path, err)
	}
	for _, h := range u.Hunks {
		for _, l := range h.Lines {
			switch l.Kind {
			case udiff.Insert:
				d.Added++
			case udiff.Delete:
				d.Removed++
			case udiff.Equal:
			}
		}
	}
	d.Text = u.String()
	return nil
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
