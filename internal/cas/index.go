package cas

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// stamp tells one state of a file from another without reading it.
type stamp struct {
	Device, Inode uint64
	// Size in bytes; the times in nanoseconds.
	Size, Modified, Changed int64
}

// of reports whether both stamps are of one file.
func (s stamp) of(o stamp) bool { return s.Device == o.Device && s.Inode == o.Inode }

// clock is a time by which files are stamped, in nanoseconds; zero: it is not known.
type clock int64

// vouches reports whether a stamp, which a file has after the time, tells its content from any
// other: what is changed from the time on bears a later one.
func (c clock) vouches(s stamp) bool { return c != 0 && s.Changed != 0 && s.Changed < int64(c) }

// indexed is a file or link of a directory, whose content was known when it bore the stamp.
type indexed struct {
	name   string
	digest spec.Digest // empty: it is a link
	stamp  stamp
}

// index is what the store remembers of a directory, so that an unchanged file
// need not be read again. It is a cache: without it everything is read. A nil one has nothing.
type index struct {
	// manifest is a tree that holds every content in the files, and total how many files
	// and links are in it. While it is in the store, so are they.
	manifest spec.Digest
	total    int
	// dirs are the directories by name, and count is how many files and links are in them.
	dirs  map[string]section
	count int
}

// section is what an index has of one directory, encoded, and its checksum.
type section struct {
	sum   string
	files []byte
}

// in returns what the index has of a directory. It may be called from many goroutines.
func (x *index) in(dir string) remembered {
	if x == nil {
		return nil
	}
	at := x.dirs[dir]
	if sum := sha256.Sum256(at.files); string(sum[:]) != at.sum {
		return nil
	}
	return decodeSection(string(at.files))
}

// isAll reports whether what was found in the directory is the index's tree.
func (x *index) isAll(l *listing) bool {
	if x == nil || x.total != x.count || x.count != l.count() {
		return false
	}
	for dir := range l.dirs {
		for i := range dir {
			if !dir[i].kept {
				return false
			}
		}
	}
	return true
}

// remembered is what an index has of one directory, sorted by name.
type remembered []indexed

// digest returns that of a file or link if it is as it was.
func (r remembered) digest(now listed) (spec.Digest, bool) {
	i, ok := slices.BinarySearchFunc(r, now.name, func(f indexed, name string) int { return strings.Compare(f.name, name) })
	if !ok || r[i].stamp != now.stamp {
		return "", false
	}
	return r[i].digest, true
}

// splitPath returns the directory of a path, "." for the top, and the name in it.
func splitPath(p string) (dir, name string) {
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		return p[:i], p[i+1:]
	}
	return ".", p
}

// indexes has what is remembered of directories of this host, in a directory; without one
// nothing is.
type indexes struct{ dir string }

const indexMagic = "maestro.index/v3\n"

// indexPath is where the index of a directory lies.
func (s indexes) indexPath(dir string) string {
	return filepath.Join(s.dir, string(DigestOf([]byte(dir))))
}

// loading begins to load what is remembered of a directory, and returns what waits for that.
func (s *Store) loading(dir string) func() *index {
	load := sync.OnceValue(func() *index { return s.loadIndex(dir, s.in) })
	go load()
	return load
}

// loadIndex returns what is remembered of a directory whose content is among the blobs; nil
// if that is nothing, or nothing that can be relied on.
func (s indexes) loadIndex(dir string, blobs storage.Blobs) *index {
	if s.dir == "" {
		return nil
	}
	data, err := os.ReadFile(s.indexPath(dir))
	if err != nil {
		return nil
	}
	x := decodeIndex(data)
	// A manifest that was pruned meanwhile vouches for nothing; one that was not
	// is young now, and then neither is what it names.
	if x == nil || blobs.UseBlob(x.manifest) != nil {
		return nil
	}
	return x
}

// saveIndex remembers a directory by its encoded index; nil: what is remembered stays. A failure only costs time later, and so does a file that
// was not written to its end: its checksum is wrong.
func (s indexes) saveIndex(dir string, encoded []byte) {
	if encoded == nil {
		return
	}
	// Only its parent is the store: what makes more could fill a mount point.
	if err := os.Mkdir(s.dir, dirMode); err == nil || errors.Is(err, fs.ErrExist) {
		_ = os.WriteFile(s.indexPath(dir), encoded, fileMode)
	}
}

// DropIndex forgets a directory. Unlike saving, this must not fail.
func (s indexes) DropIndex(dir string) error {
	if s.dir == "" {
		return nil
	}
	if err := os.Remove(s.indexPath(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// dropIndexes forgets all directories, after a blob was found missing: what is
// remembered could keep it from being stored anew.
func (s indexes) dropIndexes() { _ = os.RemoveAll(s.dir) }

// encodeIndex writes an index of files and links by their directories: the size of the head, the
// head with the checksum of each directory, the checksum of all that, and the directories.
func encodeIndex(manifest spec.Digest, total int, files map[string][]indexed) []byte {
	head := appendNumber(append([]byte(nil), manifest...), total)
	head = appendNumber(head, len(files))
	size := 0
	for _, in := range files {
		for _, f := range in {
			size += len(f.name) + len(f.digest) + 2*binary.MaxVarintLen16 + stampSize
		}
	}
	body := make([]byte, 0, size)
	for _, dir := range slices.Sorted(maps.Keys(files)) {
		from := len(body)
		body = appendSection(body, files[dir])
		sum := sha256.Sum256(body[from:])
		head = appendNumber(appendText(head, dir), len(files[dir]))
		head = append(appendNumber(head, len(body)-from), sum[:]...)
	}
	b := binary.LittleEndian.AppendUint64([]byte(indexMagic), uint64(len(head)))
	b = append(b, head...)
	sum := sha256.Sum256(b)
	return slices.Concat(b, sum[:], body)
}

// stampSize is the length of an encoded stamp.
const stampSize = 5 * 8

func appendSection(b []byte, files []indexed) []byte {
	slices.SortFunc(files, func(a, b indexed) int { return strings.Compare(a.name, b.name) })
	for _, f := range files {
		b = appendText(appendText(b, f.name), string(f.digest))
		for _, n := range []uint64{f.stamp.Device, f.stamp.Inode, uint64(f.stamp.Size), uint64(f.stamp.Modified), uint64(f.stamp.Changed)} { //nolint:gosec // read back as they were
			b = binary.LittleEndian.AppendUint64(b, n)
		}
	}
	return b
}

func appendNumber(b []byte, n int) []byte {
	return binary.AppendUvarint(b, uint64(n)) //nolint:gosec // not negative
}

func appendText(b []byte, text string) []byte { return append(appendNumber(b, len(text)), text...) }

// decodeIndex returns nil for anything but the whole of what encodeIndex wrote. What is in the
// directories is looked at when it is asked for.
func decodeIndex(data []byte) *index {
	rest, ok := bytes.CutPrefix(data, []byte(indexMagic))
	if !ok || len(rest) < 8 {
		return nil
	}
	size, rest := binary.LittleEndian.Uint64(rest), rest[8:]
	if size > uint64(len(rest)) || uint64(len(rest))-size < sha256.Size {
		return nil
	}
	r := &indexReader{rest: string(rest[:size])} // names are parts of it
	sum, body := rest[size:][:sha256.Size], rest[size:][sha256.Size:]
	if of := sha256.Sum256(data[:len(data)-len(sum)-len(body)]); !bytes.Equal(sum, of[:]) {
		return nil
	}
	x := &index{manifest: spec.Digest(r.take(64)), total: r.number(), dirs: map[string]section{}}
	for n := r.count(); n > 0 && !r.bad; n-- {
		dir := r.text()
		x.count += r.number()
		size := min(r.number(), len(body))
		x.dirs[dir] = section{r.take(sha256.Size), body[:size]}
		body = body[size:]
	}
	if r.bad || r.rest != "" || len(body) > 0 || !x.manifest.Valid() {
		return nil
	}
	return x
}

// decodeSection returns nil for anything but what appendSection wrote.
func decodeSection(data string) (files remembered) {
	r := &indexReader{rest: data}
	for r.rest != "" {
		files = append(files, indexed{name: r.text(), digest: spec.Digest(r.text()), stamp: r.stamp()})
	}
	if r.bad {
		return nil
	}
	return files
}

// indexReader takes an index apart; bad once there was too little.
type indexReader struct {
	rest string
	bad  bool
}

func (r *indexReader) take(n int) string {
	if n > len(r.rest) {
		r.bad, r.rest = true, ""
		return ""
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

func (r *indexReader) number() int {
	n, width := binary.Uvarint([]byte(r.rest[:min(len(r.rest), binary.MaxVarintLen64)]))
	if width <= 0 || n > math.MaxInt32 {
		r.bad, r.rest = true, ""
		return 0
	}
	r.rest = r.rest[width:]
	return int(n)
}

// count is a number of things, of which each takes up a byte at least.
func (r *indexReader) count() int {
	n := r.number()
	if n > len(r.rest) {
		r.bad, r.rest = true, ""
		return 0
	}
	return n
}

func (r *indexReader) text() string { return r.take(r.count()) }

func (r *indexReader) stamp() stamp {
	var n [5]uint64
	for i, b := 0, r.take(stampSize); i < len(n) && b != ""; i, b = i+1, b[8:] {
		n[i] = binary.LittleEndian.Uint64([]byte(b[:8]))
	}
	return stamp{Device: n[0], Inode: n[1], Size: int64(n[2]), Modified: int64(n[3]), Changed: int64(n[4])} //nolint:gosec // as they were
}
