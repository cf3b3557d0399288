package cas

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// TreeSchema is the first line of the blob of a directory. A line for each entry follows, sorted
// by name, with fields separated by tabs:
//
//	file  SHA-256  size in bytes  name
//	exec  SHA-256  size in bytes  name           an executable file
//	link  target  name
//	dir   SHA-256 of its blob  files and links in it, at any depth  their bytes  name
//
// The encoding is canonical, so equal trees have equal digests. An empty directory is not part of
// a tree, except for the top.
const TreeSchema = "maestro.tree/v1"

const (
	kindFile = "file"
	kindExec = "exec"
	kindLink = "link"
	kindDir  = "dir"
)

// Limits of the encoding.
const (
	// maxFiles bounds the files and links of a tree, and maxBytes their total size in bytes.
	maxFiles = 10_000_000
	maxBytes = 1 << 60
	// maxDirBlob bounds a directory's blob, in bytes: no directory of [DefaultFiles] files with names of maxPaths has more.
	maxDirBlob = 128 << 20
)

// treeDir is a directory of a tree.
type treeDir struct {
	// blob is the digest of the directory's blob; empty: not computed yet.
	blob spec.Digest
	// stored: the blob and everything that it refers to are in the store.
	stored bool
	// data is the blob of a directory that is not stored, once its digest is computed.
	data []byte
	totals
	// entries are sorted by name. A stored directory has none until it is read.
	entries []dirEntry
	read    bool
	// owner is the tree that may change the directory; other trees copy it first.
	owner *Tree
}

// totals are the number of files and links, and the total size of the files in bytes.
type totals struct {
	files int
	bytes int64
}

func (t totals) plus(o totals) totals { return totals{t.files + o.files, t.bytes + o.bytes} }

// dirEntry is a file, a link or a directory in a directory.
type dirEntry struct {
	name string
	Entry
	// sub is the directory; nil: the entry is a file or a link.
	sub *treeDir
}

func (e dirEntry) totals() totals {
	if e.sub != nil {
		return e.sub.totals
	}
	return totals{1, e.Size}
}

// index returns the position of an entry, or where it would be inserted.
func (d *treeDir) index(name string) (int, bool) {
	return slices.BinarySearchFunc(d.entries, name, func(e dirEntry, name string) int { return strings.Compare(e.name, name) })
}

// entry returns the entry of this name in a directory that was read; nil if there is none.
func (d *treeDir) entry(name string) *dirEntry {
	if d == nil {
		return nil
	}
	if i, ok := d.index(name); ok {
		return &d.entries[i]
	}
	return nil
}

// encode computes the directory's blob and digest. The digests of its subdirectories must be known.
func (d *treeDir) encode() {
	d.data = append(make([]byte, 0, len(d.entries)*110), TreeSchema+"\n"...)
	for _, e := range d.entries {
		d.data = e.append(d.data)
	}
	d.blob = spec.DigestOf(d.data)
}

func (e dirEntry) append(b []byte) []byte {
	switch {
	case e.sub != nil:
		b = append(append(append(b, kindDir+"\t"...), e.sub.blob...), '\t')
		b = append(strconv.AppendInt(b, int64(e.sub.files), 10), '\t')
		b = strconv.AppendInt(b, e.sub.bytes, 10)
	case e.Link != "":
		b = append(append(b, kindLink+"\t"...), e.Link...)
	default:
		kind := kindFile
		if e.Executable {
			kind = kindExec
		}
		b = append(append(b, kind...), '\t')
		b = append(append(b, e.SHA256...), '\t')
		b = strconv.AppendInt(b, e.Size, 10)
	}
	return append(append(append(b, '\t'), e.name...), '\n')
}

// decodeDir decodes a directory's blob.
func decodeDir(data []byte) (entries []dirEntry, err error) {
	lines, ok := strings.CutPrefix(string(data), TreeSchema+"\n")
	if !ok {
		return nil, fmt.Errorf("it does not begin with %q", TreeSchema)
	}
	for line := range strings.Lines(lines) {
		line, ended := strings.CutSuffix(line, "\n")
		e, err := decodeEntry(line)
		if err == nil && !ended {
			err = errors.New("its last line does not end with a line break")
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func decodeEntry(line string) (e dirEntry, err error) {
	f := strings.Split(line, "\t")
	switch kind := f[0]; {
	case (kind == kindFile || kind == kindExec) && len(f) == 4:
		e.SHA256, e.Executable = spec.Digest(f[1]), kind == kindExec
		e.Size, err = decodeNumber(f[2], maxBytes)
	case kind == kindLink && len(f) == 3:
		e.Link = f[1]
	case kind == kindDir && len(f) == 5:
		files, wrong := decodeNumber(f[2], maxFiles)
		e.sub = &treeDir{blob: spec.Digest(f[1]), stored: true, totals: totals{files: int(files)}}
		if e.sub.bytes, err = decodeNumber(f[3], maxBytes); wrong != nil || files == 0 || !e.sub.blob.Valid() {
			err = errors.New("a directory has no valid SHA-256, or is empty")
		}
	default:
		err = errors.New("an entry has an unknown kind")
	}
	e.name = f[len(f)-1]
	if err == nil && strings.Contains(e.name, "/") {
		err = fmt.Errorf("%q is not a valid name", e.name)
	}
	if err == nil && e.sub == nil {
		err = e.checkContent()
	}
	return e, errors.Join(err, CheckPath(e.name))
}

// decodeNumber decodes a number up to a limit.
func decodeNumber(text string, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, errors.New("a number is invalid or too large")
	}
	return n, nil
}

// check checks that a directory's entries are sorted and within the limits, adds up their totals, and checks that its blob is
// encoded in the only valid way.
func (d *treeDir) check() error {
	is, after := treeDir{entries: d.entries}, ""
	for _, e := range d.entries {
		if e.name <= after {
			return fmt.Errorf("%q is not after %q", e.name, after)
		}
		after = e.name
		if is.totals = is.plus(e.totals()); is.files > maxFiles || is.bytes > maxBytes {
			return fmt.Errorf("it has more than %d files, or more than %d bytes", maxFiles, int64(maxBytes))
		}
	}
	if d.totals != (totals{}) && d.totals != is.totals {
		return fmt.Errorf("it has %d files of %d bytes, but its parent says %d files of %d bytes", is.files, is.bytes, d.files, d.bytes)
	}
	if is.encode(); is.blob != d.blob {
		return errors.New("it is not encoded as a directory is")
	}
	d.totals = is.totals
	return nil
}

const notADir = "directory of a tree"

// load reads the entries of a stored directory. It does not check whether the entries fit the
// directory's path; see checkAt.
func (s *Store) load(ctx context.Context, d *treeDir) (err error) {
	if d.read {
		return nil
	}
	data, err := s.blobUpTo(ctx, d.blob, maxDirBlob, notADir)
	if err != nil {
		return err
	}
	if d.entries, err = decodeDir(data); err == nil {
		err = d.check()
	}
	if err != nil {
		return s.WrongKind(d.blob, notADir, err)
	}
	d.read = true
	return nil
}

// checkAt returns an error if a directory's entries are not valid at this path of a tree.
func (s *Store) checkAt(d *treeDir, at string) error {
	for _, e := range d.entries {
		var err error
		switch p := path.Join(at, e.name); {
		case len(p) > MaxPath:
			err = errors.New("the path is too long")
		case e.Link != "":
			err = CheckLink(p, e.Link)
		}
		if err != nil {
			return s.WrongKind(d.blob, notADir, fmt.Errorf("%q: %w", e.name, err))
		}
	}
	return nil
}
