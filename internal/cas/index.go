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

// stamp identifies one state of a file's content without reading it.
type stamp struct {
	Device, Inode uint64
	// Size is in bytes; the times are in nanoseconds.
	Size, Modified, Changed int64
}

// sameFile reports whether both stamps are of the same file.
func (s stamp) sameFile(o stamp) bool { return s.Device == o.Device && s.Inode == o.Inode }

// clock is a time of the kernel's clock for file times, in nanoseconds; zero: unknown.
type clock int64

// isAfter reports whether the clock is later than the last change of the stamp. Then the stamp
// identifies the content: a change after the clock was read gives the file a later time.
func (c clock) isAfter(s stamp) bool { return c != 0 && s.Changed != 0 && s.Changed < int64(c) }

// indexEntry is a file or link with the stamp for which its content is known.
type indexEntry struct {
	name   string
	digest spec.Digest // empty for a link
	stamp  stamp
}

// index records the files of a directory with their stamps and digests, so that unchanged files
// need not be read again. It is a cache: without it everything is read. A nil index is empty.
type index struct {
	// manifest is a tree that contains the content of all indexed files, and total is its number
	// of files and links. While it is in the store, these contents are, too.
	manifest spec.Digest
	total    int
	// dirs are the directories by path, and count is the number of indexed files and links.
	dirs  map[string]encodedDir
	count int
}

// encodedDir is the encoded index of one directory, with its checksum.
type encodedDir struct {
	sum   string
	files []byte
}

// dir returns the index of one directory. It is safe for concurrent use.
func (x *index) dir(dir string) dirIndex {
	if x == nil {
		return nil
	}
	at := x.dirs[dir]
	if sum := sha256.Sum256(at.files); string(sum[:]) != at.sum {
		return nil
	}
	return decodeSection(string(at.files))
}

// matches reports whether the files that a scan found are exactly the index's tree, unchanged.
func (x *index) matches(l *listing) bool {
	if x == nil || x.total != x.count || x.count != l.count() {
		return false
	}
	for dir := range l.dirs {
		for i := range dir {
			if !dir[i].stampValid {
				return false
			}
		}
	}
	return true
}

// dirIndex is the decoded index of one directory, sorted by name.
type dirIndex []indexEntry

// digest returns the digest of a file or link; ok is false if its stamp has changed.
func (r dirIndex) digest(now dirItem) (spec.Digest, bool) {
	i, ok := slices.BinarySearchFunc(r, now.name, func(f indexEntry, name string) int { return strings.Compare(f.name, name) })
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

// indexFiles stores indexes of directories of this host in a directory. Without a directory it
// stores nothing.
type indexFiles struct{ dir string }

const indexMagic = "maestro.index/v3\n"

// indexPath returns the file of the index of a directory.
func (s indexFiles) indexPath(dir string) string {
	return filepath.Join(s.dir, string(DigestOf([]byte(dir))))
}

// startLoading starts to load the index of a directory. The returned function waits for the
// result.
func (s *Store) startLoading(dir string) func() *index {
	load := sync.OnceValue(func() *index { return s.loadIndex(dir, s.backend) })
	go load()
	return load
}

// loadIndex returns the index of a directory; nil if there is none, or none that is usable with
// these blobs.
func (s indexFiles) loadIndex(dir string, blobs storage.Blobs) *index {
	if s.dir == "" {
		return nil
	}
	data, err := os.ReadFile(s.indexPath(dir))
	if err != nil {
		return nil
	}
	x := decodeIndex(data)
	// If the manifest was pruned, its contents may be missing. UseBlob marks it as used, so that
	// it and its contents cannot be pruned now.
	if x == nil || blobs.UseBlob(x.manifest) != nil {
		return nil
	}
	return x
}

// saveIndex writes the encoded index of a directory; nil keeps the old one. Errors are ignored,
// because a missing index only costs time. The checksum of a partly written file is wrong.
func (s indexFiles) saveIndex(dir string, encoded []byte) {
	if encoded == nil {
		return
	}
	// Do not create parent directories: if the store is not mounted, they would fill its mount
	// point.
	if err := os.Mkdir(s.dir, dirMode); err == nil || errors.Is(err, fs.ErrExist) {
		_ = os.WriteFile(s.indexPath(dir), encoded, fileMode)
	}
}

// DropIndex removes the index of a directory. Its errors must not be ignored: a stale index could
// be used.
func (s indexFiles) DropIndex(dir string) error {
	if s.dir == "" {
		return nil
	}
	if err := os.Remove(s.indexPath(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// dropIndexes removes all indexes after a blob was found missing. Otherwise an index could
// prevent that the blob is stored again.
func (s indexFiles) dropIndexes() { _ = os.RemoveAll(s.dir) }

// encodeIndex encodes an index: the size of the head, the head with a checksum for each
// directory, the checksum of both, and the directories.
func encodeIndex(manifest spec.Digest, total int, files map[string][]indexEntry) []byte {
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

func appendSection(b []byte, files []indexEntry) []byte {
	slices.SortFunc(files, func(a, b indexEntry) int { return strings.Compare(a.name, b.name) })
	for _, f := range files {
		b = appendText(appendText(b, f.name), string(f.digest))
		for _, n := range []uint64{f.stamp.Device, f.stamp.Inode, uint64(f.stamp.Size), uint64(f.stamp.Modified), uint64(f.stamp.Changed)} { //nolint:gosec // decoded by the same conversion
			b = binary.LittleEndian.AppendUint64(b, n)
		}
	}
	return b
}

func appendNumber(b []byte, n int) []byte {
	return binary.AppendUvarint(b, uint64(n)) //nolint:gosec // not negative
}

func appendText(b []byte, text string) []byte { return append(appendNumber(b, len(text)), text...) }

// decodeIndex decodes an index; nil if it is not complete and valid. Directories are decoded when
// they are used.
func decodeIndex(data []byte) *index {
	rest, ok := bytes.CutPrefix(data, []byte(indexMagic))
	if !ok || len(rest) < 8 {
		return nil
	}
	size, rest := binary.LittleEndian.Uint64(rest), rest[8:]
	if size > uint64(len(rest)) || uint64(len(rest))-size < sha256.Size {
		return nil
	}
	r := &indexReader{rest: string(rest[:size])} // decoded names share this string
	sum, body := rest[size:][:sha256.Size], rest[size:][sha256.Size:]
	if of := sha256.Sum256(data[:len(data)-len(sum)-len(body)]); !bytes.Equal(sum, of[:]) {
		return nil
	}
	x := &index{manifest: spec.Digest(r.take(64)), total: r.number(), dirs: map[string]encodedDir{}}
	for n := r.count(); n > 0 && !r.bad; n-- {
		dir := r.text()
		x.count += r.number()
		size := min(r.number(), len(body))
		x.dirs[dir] = encodedDir{r.take(sha256.Size), body[:size]}
		body = body[size:]
	}
	if r.bad || r.rest != "" || len(body) > 0 || !x.manifest.Valid() {
		return nil
	}
	return x
}

// decodeSection decodes one directory; nil if it is not valid.
func decodeSection(data string) (files dirIndex) {
	r := &indexReader{rest: data}
	for r.rest != "" {
		files = append(files, indexEntry{name: r.text(), digest: spec.Digest(r.text()), stamp: r.stamp()})
	}
	if r.bad {
		return nil
	}
	return files
}

// indexReader decodes an index; bad: the data was too short or invalid.
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

// count reads the number of items that follow; each takes at least one byte.
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
	return stamp{Device: n[0], Inode: n[1], Size: int64(n[2]), Modified: int64(n[3]), Changed: int64(n[4])} //nolint:gosec // encoded by the same conversion
}
