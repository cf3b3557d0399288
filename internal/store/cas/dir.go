package cas

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
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
// A directory of more than maxEntries entries is split into several such blobs. Its own blob
// names these parts, in order:
//
//	part  SHA-256
//
// The encoding is canonical, so equal trees have equal digests. An empty directory is not part of
// a tree, except for the top.
const TreeSchema = "maestro.tree/v1"

const (
	kindFile = "file"
	kindExec = "exec"
	kindLink = "link"
	kindDir  = "dir"
	kindPart = "part"
)

// Limits of the encoding.
const (
	// maxEntries is the largest number of entries in one blob.
	maxEntries = 1024
	// minPart is the smallest number of entries in a part, except for the last part.
	minPart = 64
	// partMask selects the bits of a name's checksum that must be zero for a part to end after
	// that name: every 256 names, on average. So a change of one entry moves the ends of few
	// parts.
	partMask = 0xff
	// maxFiles bounds the files and links of a tree, and maxBytes their total size in bytes.
	maxFiles = 10_000_000
	maxBytes = 1 << 60
	// maxDirBlob bounds a directory's blob, in bytes: more than maxEntries of the longest
	// entries, and more than the list of parts of a directory with maxFiles.
	maxDirBlob = 16 << 20
)

// treeDir is a directory of a tree.
type treeDir struct {
	// blob is the digest of the directory's blob; empty: not computed yet.
	blob spec.Digest
	// stored: the blob and everything that it refers to are in the store.
	stored bool
	// docs are the blobs to be stored of a directory whose digest is computed, its own as the last one.
	docs []document
	// parts are the digests of the parts that the directory had when it was read.
	parts []spec.Digest
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

// document is a blob to be stored.
type document struct {
	name spec.Digest
	data []byte
}

func documentOf(data []byte) document { return document{DigestOf(data), data} }

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

// encode computes the directory's blobs and digest. The digests of its subdirectories must be
// known.
func (d *treeDir) encode() {
	d.docs = nil
	list := []byte(TreeSchema + "\n")
	for rest := d.entries; len(d.entries) > maxEntries && len(rest) > 0; {
		n := partLength(rest)
		part := documentOf(encodeEntries(rest[:n]))
		d.docs = append(d.docs, part)
		list = append(list, kindPart+"\t"+part.name+"\n"...)
		rest = rest[n:]
	}
	if len(d.entries) <= maxEntries {
		list = encodeEntries(d.entries)
	}
	own := documentOf(list)
	d.docs, d.blob = append(d.docs, own), own.name
}

// partLength returns how many of the entries are in the next part.
func partLength(entries []dirEntry) int {
	for i := minPart - 1; i < len(entries) && i < maxEntries-1; i++ {
		if crc32.ChecksumIEEE([]byte(entries[i].name))&partMask == 0 {
			return i + 1
		}
	}
	return min(len(entries), maxEntries)
}

func encodeEntries(entries []dirEntry) []byte {
	b := append(make([]byte, 0, len(entries)*110), TreeSchema+"\n"...)
	for _, e := range entries {
		b = e.append(b)
	}
	return b
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

// decodeDir decodes a directory's blob: its entries, or the digests of its parts.
func decodeDir(data []byte) (entries []dirEntry, parts []spec.Digest, err error) {
	lines, ok := strings.CutPrefix(string(data), TreeSchema+"\n")
	if !ok {
		return nil, nil, fmt.Errorf("it does not begin with %q", TreeSchema)
	}
	for line := range strings.Lines(lines) {
		line, ended := strings.CutSuffix(line, "\n")
		if part, ok := strings.CutPrefix(line, kindPart+"\t"); ok && spec.Digest(part).Valid() {
			parts = append(parts, spec.Digest(part))
			continue
		}
		e, err := decodeEntry(line)
		if entries = append(entries, e); err == nil && len(entries) > maxEntries {
			err = fmt.Errorf("it has more than %d entries", maxEntries)
		}
		if err == nil && !ended {
			err = errors.New("its last line does not end with a line break")
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return entries, parts, nil
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

// check checks that a directory's entries are sorted and within the limits, adds up their totals, and checks that its blobs are
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
	if d.entries, d.parts, err = s.decodeBlob(ctx, d.blob); err != nil {
		return err
	}
	if err := s.backend.Fetch(ctx, d.parts); err != nil {
		return err
	}
	for _, part := range d.parts {
		more, _, err := s.decodeBlob(ctx, part)
		if err != nil {
			return err
		}
		if d.entries = append(d.entries, more...); len(d.entries) > maxFiles {
			break // which check refuses
		}
	}
	if err := d.check(); err != nil {
		return s.WrongKind(d.blob, notADir, err)
	}
	d.read = true
	return nil
}

// decodeBlob reads one blob of a directory.
func (s *Store) decodeBlob(ctx context.Context, name spec.Digest) ([]dirEntry, []spec.Digest, error) {
	data, err := s.blobUpTo(ctx, name, maxDirBlob, notADir)
	if err != nil {
		return nil, nil, err
	}
	entries, parts, err := decodeDir(data)
	if err != nil {
		return nil, nil, s.WrongKind(name, notADir, err)
	}
	return entries, parts, nil
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
