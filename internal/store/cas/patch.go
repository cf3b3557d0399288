package cas

import (
	"context"
	"crypto/sha1" //nolint:gosec // the names that git gives to contents
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// The modes of git's trees.
const (
	gitFile       = "100644"
	gitExecutable = "100755"
	gitLink       = "120000"
)

// maxCompared is the largest file, in bytes, that is compared line by line.
const maxCompared = 1 << 20

// PatchOptions configures a patch.
type PatchOptions struct {
	// Paths selects what is compared. Each is a path, a directory or a pattern; an empty list
	// selects everything.
	Paths []string
	// Binary includes the content of files that are not compared by lines, as git's binary
	// patches. Without it, the patch only says that they differ, and git refuses to apply it.
	Binary bool
	// Prefix is put before each path in the texts: a directory, empty or ending in a slash.
	Prefix string
}

// PathDiff is how two trees differ at one path.
type PathDiff struct {
	Path string
	// Had and Has report whether the path exists in the first and in the second tree.
	Had, Has bool
	// Added and Removed count lines; both are zero for files that are not compared by lines.
	Added, Removed int
	// Opaque: the content differs, and was not compared by lines.
	Opaque bool
	// Text is the path's part of a patch for `git apply`. If a file replaces a directory, the
	// part that adds the file comes before the parts that remove the directory.
	Text string
}

// Patch describes how to change one tree into another, path by path in order. The concatenated
// texts are a patch. The sequence ends at the first error. A selection that matches nothing in
// the difference or in either tree is [session.ErrNotFound].
func (s *Store) Patch(ctx context.Context, from, to spec.Digest, o PatchOptions) iter.Seq2[PathDiff, error] {
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

// UnifiedDiff describes how one tree differs from another, for people and models: a patch that is
// cut to at most about limit bytes. Files whose part does not fit are only named.
func (s *Store) UnifiedDiff(ctx context.Context, from, to spec.Digest, limit int) (string, error) {
	var text strings.Builder
	for d, err := range s.Patch(ctx, from, to, PatchOptions{}) {
		if err != nil {
			return "", err
		}
		part := d.Text
		if text.Len()+len(part) > limit {
			part = d.Path + ": changed; the difference is left out here\n"
		}
		if text.Len()+len(part) > limit {
			text.WriteString("… and more files\n")
			break
		}
		text.WriteString(part)
	}
	return text.String(), nil
}

// differing returns the wanted paths at which two trees differ, and the entries of both trees at
// these paths.
func (s *Store) differing(ctx context.Context, from, to spec.Digest, wanted []string) (before, after Manifest, paths []string,
	err error,
) {
	a, b, err := s.trees(ctx, from, to)
	if err != nil {
		return nil, nil, nil, err
	}
	d, err := Diff(ctx, a, b)
	if err != nil {
		return nil, nil, nil, err
	}
	if paths, err = selectPaths(slices.Sorted(maps.Keys(d)), wanted); errors.Is(err, session.ErrNotFound) {
		paths, err = selectEqual(ctx, a, b, d, wanted)
	}
	before, after = Manifest{}, Manifest{}
	for _, p := range paths {
		if !d[p].Deleted {
			after[p] = d[p].Entry
		}
		if old, had, err := a.Get(ctx, p); err != nil {
			return nil, nil, nil, err
		} else if had {
			before[p] = old
		}
	}
	return before, after, paths, err
}

// selectEqual selects the differing paths if wanted also selects paths that are equal in both
// trees.
func selectEqual(ctx context.Context, a, b *Tree, d Delta, wanted []string) ([]string, error) {
	both, err := a.Manifest(ctx)
	if err != nil {
		return nil, err
	}
	after, err := b.Manifest(ctx)
	if err != nil {
		return nil, err
	}
	maps.Copy(both, after)
	paths, err := both.Select(wanted)
	return slices.DeleteFunc(paths, func(p string) bool { _, differs := d[p]; return !differs }), err
}

// patch describes how one path differs. A link that replaces a file is a removal and an addition,
// as in git.
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

// patchPair describes how one entry differs from another of its kind; nil is an absent entry.
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
	large := max(old.size(), now.size()) > maxCompared
	if large && !o.Binary { // the content is not needed
		d.Opaque = true
		text.WriteString(binaryDiffers(name, old != nil, now != nil))
		return nil
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
		return nil // an empty file was added or removed
	}
	if large || !isText(before) || !isText(after) {
		d.Opaque = true
		if o.Binary {
			return writeBinary(text, before, after)
		}
		text.WriteString(binaryDiffers(name, old != nil, now != nil))
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

// contentOf returns a file's content or a link's target; empty for an absent entry.
func (s *Store) contentOf(ctx context.Context, e *Entry) (string, error) {
	switch {
	case e == nil:
		return "", nil
	case e.Link != "" || e.Size == 0:
		return e.Link, nil
	}
	data, err := s.Blob(ctx, e.SHA256)
	return string(data), err
}

func (e *Entry) size() int64 {
	if e == nil {
		return 0
	}
	return e.Size
}

// binaryDiffers returns the line for a file that is not compared by lines.
func binaryDiffers(name string, had, has bool) string {
	return fmt.Sprintf("Binary files %s and %s differ\n", strings.TrimSuffix(sideName("a/", name, had), "\t"),
		strings.TrimSuffix(sideName("b/", name, has), "\t"))
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

// gitBlob returns git's name of a content; zeros for an absent one.
func gitBlob(content string, present bool) string {
	if !present {
		return strings.Repeat("0", 2*sha1.Size)
	}
	h := sha1.New() //nolint:gosec // git's name for the content; not used for security
	_, _ = fmt.Fprintf(h, "blob %d\x00%s", len(content), content)
	return hex.EncodeToString(h.Sum(nil))
}

// unified compares two texts line by line. The name of an absent side is /dev/null.
func unified(path string, had, has bool, oldText, newText string) (udiff.UnifiedDiff, error) {
	u, err := udiff.ToUnifiedDiff(sideName("a/", path, had), sideName("b/", path, has),
		oldText, udiff.Lines(oldText, newText), udiff.DefaultContextLines)
	if err != nil {
		return u, fmt.Errorf("compare %s: %w", path, err)
	}
	return u, nil
}

// sideName names one side of a difference as git does. A tab follows a name that contains a
// space, so that programs find its end.
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

// gitName quotes a name as git does if it contains a quote, a backslash or an invisible
// character.
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

// isText reports whether the content can be compared by lines.
func isText(content string) bool {
	return utf8.ValidString(content) && !strings.ContainsRune(content, 0)
}
