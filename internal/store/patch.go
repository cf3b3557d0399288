package store

import (
	"context"
	"crypto/sha1" //nolint:gosec // the names that git gives to contents
	"encoding/hex"
	"fmt"
	"iter"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/maestro-hive/maestro/internal/team"
)

// The modes of git's trees.
const (
	gitFile       = "100644"
	gitExecutable = "100755"
	gitLink       = "120000"
)

// PatchOptions says what a patch holds.
type PatchOptions struct {
	// Paths selects what is compared: a path, a directory or a pattern each;
	// none selects everything.
	Paths []string
	// Binary includes the content of files that are not compared by lines, as
	// git's binary patches. Without it they are only said to differ, and git
	// refuses to apply the patch.
	Binary bool
	// Prefix stands before each path in the texts: a directory, empty or ending in
	// a slash.
	Prefix string
}

// PathDiff is how two trees differ at one path.
type PathDiff struct {
	Path string
	// Had and Has tell whether there is something at the path in the first and
	// in the second tree.
	Had, Has bool
	// Added and Removed count lines; both are zero for what is not compared by lines.
	Added, Removed int
	// Opaque: the content differs, and is not compared by lines.
	Opaque bool
	// Text is the path's part of a patch that `git apply` takes; one that adds a
	// file in place of a directory comes before the parts that remove the directory.
	Text string
}

// Patch describes what makes one tree into another, path by path in order. The
// texts one after the other are a patch. The first error ends it; a selection that
// matches no difference and nothing in either tree is [team.ErrNotFound].
func (s *Store) Patch(ctx context.Context, from, to team.Digest, o PatchOptions) iter.Seq2[PathDiff, error] {
	return func(yield func(PathDiff, error) bool) {
		before, after, paths, err := s.differing(ctx, from, to, o.Paths)
		if err != nil {
			yield(PathDiff{}, err)
			return
		}
		for _, path := range paths {
			d, err := s.patch(ctx, path, before, after, o)
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// differing reads two trees and lists where they differ, as far as it is wanted.
func (s *Store) differing(ctx context.Context, from, to team.Digest, wanted []string) (before, after Manifest, paths []string, err error) {
	if before, err = s.Manifest(ctx, from); err != nil {
		return nil, nil, nil, err
	}
	if after, err = s.Manifest(ctx, to); err != nil {
		return nil, nil, nil, err
	}
	both := Manifest{}
	for _, m := range []Manifest{before, after} {
		for p, e := range m {
			both[p] = e
		}
	}
	all, err := both.Select(wanted)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, p := range all {
		old, had := before[p]
		now, has := after[p]
		if had != has || old != now {
			paths = append(paths, p)
		}
	}
	return before, after, paths, nil
}

// patch describes how one path differs. A link that takes a file's place is a
// removal and an addition, as git has it.
func (s *Store) patch(ctx context.Context, path string, before, after Manifest, o PatchOptions) (PathDiff, error) {
	old, had := before[path]
	now, has := after[path]
	d := PathDiff{Path: path, Had: had, Has: has}
	sides := [][2]*Entry{{side(old, had), side(now, has)}}
	if had && has && (old.Link == "") != (now.Link == "") {
		sides = [][2]*Entry{{&old, nil}, {nil, &now}}
	}
	var text strings.Builder
	for _, pair := range sides {
		if err := s.patchPair(ctx, &d, &text, pair[0], pair[1], o); err != nil {
			return d, fmt.Errorf("compare %s: %w", path, err)
		}
	}
	d.Text = text.String()
	return d, nil
}

func side(e Entry, present bool) *Entry {
	if !present {
		return nil
	}
	return &e
}

// patchPair writes how one entry differs from another of its kind; nil is absent.
func (s *Store) patchPair(ctx context.Context, d *PathDiff, text *strings.Builder, old, now *Entry, o PatchOptions) error {
	name := o.Prefix + d.Path
	fmt.Fprintf(text, "diff --git %s %s\n", gitName("a/"+name), gitName("b/"+name))
	mode := ""
	switch {
	case old == nil:
		fmt.Fprintf(text, "new file mode %s\n", now.gitMode())
	case now == nil:
		fmt.Fprintf(text, "deleted file mode %s\n", old.gitMode())
	case old.gitMode() != now.gitMode():
		fmt.Fprintf(text, "old mode %s\nnew mode %s\n", old.gitMode(), now.gitMode())
	default:
		mode = " " + now.gitMode()
	}
	if old != nil && now != nil && old.SHA256 == now.SHA256 && old.Link == now.Link {
		return nil // only the mode differs
	}
	before, err := s.contentOf(ctx, old)
	if err != nil {
		return err
	}
	after, err := s.contentOf(ctx, now)
	if err != nil {
		return err
	}
	fmt.Fprintf(text, "index %s..%s%s\n", gitBlob(before, old != nil), gitBlob(after, now != nil), mode)
	if before == after {
		return nil // an empty file came or went
	}
	if max(len(before), len(after)) > maxCompared || !isText(before) || !isText(after) {
		d.Opaque = true
		if o.Binary {
			return writeBinary(text, before, after)
		}
		fmt.Fprintf(text, "Binary files %s and %s differ\n",
			strings.TrimSuffix(sideName("a/", name, old != nil), "\t"), strings.TrimSuffix(sideName("b/", name, now != nil), "\t"))
		return nil
	}
	u, err := unified(name, old != nil, now != nil, before, after)
	if err != nil {
		return err
	}
	d.count(u)
	text.WriteString(u.String())
	return nil
}

func (d *PathDiff) count(u udiff.UnifiedDiff) {
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
}

func (s *Store) contentOf(ctx context.Context, e *Entry) (string, error) {
	if e == nil {
		return "", nil
	}
	return s.content(ctx, *e, true)
}

// gitMode is the entry's mode in git's trees.
func (e Entry) gitMode() string {
	switch {
	case e.Link != "":
		return gitLink
	case e.Executable:
		return gitExecutable
	}
	return gitFile
}

// gitBlob is the name that git gives to a content; zeros for what is absent.
func gitBlob(content string, present bool) string {
	if !present {
		return strings.Repeat("0", 2*sha1.Size)
	}
	h := sha1.New() //nolint:gosec // it is git's name for the content, and protects nothing
	_, _ = fmt.Fprintf(h, "blob %d\x00%s", len(content), content)
	return hex.EncodeToString(h.Sum(nil))
}
