package cas

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/maestro-hive/maestro/internal/spec"
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
	// docs are the blobs to be stored of a directory whose digest is computed.
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
	if len(d.entries) <= maxEntries {
		d.docs = []document{encodeLines(len(d.entries)*110, func(b []byte, i int) []byte { return d.entries[i].append(b) }, len(d.entries))}
	} else {
		var parts []spec.Digest
		for from := 0; from < len(d.entries); {
			n := partLength(d.entries[from:])
			part := encodeLines(n*110, func(b []byte, i int) []byte { return d.entries[from+i].append(b) }, n)
			from += n
			parts = append(parts, part.name)
			if !slices.Contains(d.parts, part.name) {
				d.docs = append(d.docs, part)
			}
		}
		d.docs = append(d.docs, encodeLines(len(parts)*70, func(b []byte, i int) []byte {
			return append(append(append(b, kindPart+"\t"...), parts[i]...), '\n')
		}, len(parts)))
	}
	d.blob = d.docs[len(d.docs)-1].name
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

func encodeLines(size int, line func(b []byte, i int) []byte, n int) document {
	b := make([]byte, 0, len(TreeSchema)+1+size)
	b = append(append(b, TreeSchema...), '\n')
	for i := range n {
		b = line(b, i)
	}
	return document{DigestOf(b), b}
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
	entries = make([]dirEntry, 0, min(strings.Count(lines, "\n"), maxEntries))
	for lines != "" {
		line, rest, ended := strings.Cut(lines, "\n")
		if !ended {
			return nil, nil, errors.New("its last line does not end with a line break")
		}
		lines = rest
		if part, ok := strings.CutPrefix(line, kindPart+"\t"); ok {
			parts = append(parts, spec.Digest(part))
			continue
		}
		e, err := decodeEntry(line)
		if err != nil {
			return nil, nil, err
		}
		if entries = append(entries, e); len(entries) > maxEntries {
			return nil, nil, fmt.Errorf("it has more than %d entries", maxEntries)
		}
	}
	if len(parts) > 0 && len(entries) > 0 {
		return nil, nil, errors.New("it has both parts and entries")
	}
	for _, p := range parts {
		if !p.Valid() {
			return nil, nil, errors.New("a part has no valid SHA-256")
		}
	}
	return entries, parts, nil
}

func decodeEntry(line string) (e dirEntry, err error) {
	kind, rest, _ := strings.Cut(line, "\t")
	var content, number string
	fields := []*string{&content, &number}
	if kind == kindLink {
		fields = fields[:1]
	}
	files := "1"
	if kind == kindDir {
		fields = []*string{&content, &files, &number}
	}
	for _, f := range fields {
		*f, rest, _ = strings.Cut(rest, "\t")
	}
	if e.name = rest; strings.Contains(rest, "/") {
		return e, fmt.Errorf("%q is not a valid name", rest)
	}
	var t totals
	if kind != kindLink {
		if t.bytes, err = decodeNumber(number, maxBytes); err != nil {
			return e, err
		}
	}
	switch kind {
	case kindFile, kindExec:
		e.SHA256, e.Size, e.Executable = spec.Digest(content), t.bytes, kind == kindExec
	case kindLink:
		e.Link = content
	case kindDir:
		n, err := decodeNumber(files, maxFiles)
		if err != nil || n == 0 || !spec.Digest(content).Valid() {
			return e, errors.Join(errors.New("a directory has no valid SHA-256, or is empty"), err)
		}
		t.files = int(n)
		e.sub = &treeDir{blob: spec.Digest(content), stored: true, totals: t}
		return e, CheckPath(e.name)
	default:
		return e, errors.New("an entry has an unknown kind")
	}
	return e, errors.Join(CheckPath(e.name), e.checkContent())
}

// decodeNumber decodes a number in its only valid spelling.
func decodeNumber(text string, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most || strconv.FormatInt(n, 10) != text {
		return 0, errors.New("a number is invalid or too large")
	}
	return n, nil
}

// checkEntries checks that entries are sorted and within the limits, and adds up their totals.
func checkEntries(sum totals, after string, entries []dirEntry) (totals, error) {
	for _, e := range entries {
		if e.name <= after {
			return sum, fmt.Errorf("%q is not after %q", e.name, after)
		}
		after = e.name
		if sum = sum.plus(e.totals()); sum.files > maxFiles || sum.bytes > maxBytes {
			return sum, fmt.Errorf("it has more than %d files, or more than %d bytes", maxFiles, int64(maxBytes))
		}
	}
	return sum, nil
}

// load reads the entries of a stored directory. It does not check whether the entries fit the
// directory's path; see checkAt.
func (s *blobs) load(ctx context.Context, d *treeDir) error {
	if d.read {
		return nil
	}
	entries, parts, err := s.decodeBlob(ctx, d.blob)
	if err != nil {
		return err
	}
	var lengths []int
	sum, err := checkEntries(totals{}, "", entries)
	for i := 0; i < len(parts) && err == nil; i++ {
		more, none, err := s.decodeBlob(ctx, parts[i])
		if err != nil {
			return err
		}
		last := ""
		if n := len(entries); n > 0 {
			last = entries[n-1].name
		}
		if sum, err = checkEntries(sum, last, more); err == nil && len(none) > 0 {
			err = errors.New("a part has parts")
		}
		if err != nil {
			return s.WrongKind(d.blob, notADir, err)
		}
		entries, lengths = append(entries, more...), append(lengths, len(more))
	}
	if err == nil {
		err = checkParts(entries, lengths)
	}
	if err == nil && d.totals != (totals{}) && d.totals != sum {
		err = fmt.Errorf("it has %d files of %d bytes, but its parent says %d files of %d bytes", sum.files, sum.bytes, d.files, d.bytes)
	}
	if err != nil {
		return s.WrongKind(d.blob, notADir, err)
	}
	d.entries, d.parts, d.totals, d.read = entries, parts, sum, true
	return nil
}

// checkParts returns an error unless the parts end where encode ends them.
func checkParts(entries []dirEntry, lengths []int) error {
	if (len(entries) > maxEntries) != (len(lengths) > 0) {
		return fmt.Errorf("its %d entries are split into %d parts", len(entries), len(lengths))
	}
	for _, n := range lengths {
		if n == 0 || n != partLength(entries) {
			return errors.New("its parts do not end where they should")
		}
		entries = entries[n:]
	}
	return nil
}

const notADir = "directory of a tree"

// decodeBlob reads one blob of a directory.
func (s *blobs) decodeBlob(ctx context.Context, name spec.Digest) ([]dirEntry, []spec.Digest, error) {
	data, err := s.readSmall(ctx, name)
	if errors.Is(err, io.ErrShortBuffer) {
		size, failed := s.BlobSize(name)
		if failed == nil && size > maxDirBlob {
			return nil, nil, s.WrongKind(name, notADir, fmt.Errorf("it has %d bytes", size))
		}
		data, err = s.readLarge(ctx, name)
	}
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
func (s *blobs) checkAt(d *treeDir, at string) error {
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
