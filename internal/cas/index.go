package cas

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// stamp tells one state of a file from another without reading it.
type stamp struct {
	Device, Inode uint64
	// Size in bytes; the times in nanoseconds.
	Size, Modified, Changed int64
}

// stampOf is the stamp of a file that was seen.
func stampOf(info fs.FileInfo) stamp {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return stampFrom(st)
	}
	return stamp{}
}

// vouches reports whether the stamp tells one content of the file from another.
func (s stamp) vouches() bool { return s.Changed != 0 }

// indexed is a file of a directory, whose content was known when it bore the stamp.
type indexed struct {
	name   string
	digest spec.Digest
	stamp  stamp
}

// index is what the store remembers of a directory, so that an unchanged file
// need not be read again. It is a cache: without it everything is read.
type index struct {
	// manifest is a tree that holds every content in the files. While it is in the
	// store, so are they.
	manifest spec.Digest
	// dirs has the files by their directories, sorted by name, and count is how many they are.
	dirs  map[string][]indexed
	count int
}

func newIndex(manifest spec.Digest) *index {
	return &index{manifest: manifest, dirs: map[string][]indexed{}}
}

// add adds a file that the index does not have.
func (x *index) add(p string, s stamp, digest spec.Digest) {
	dir, name := path.Split(p)
	x.dirs[dir] = append(x.dirs[dir], indexed{name, digest, s})
	x.count++
}

// known returns the digest of the file at the path if it is as it was.
func (x *index) known(p string, s stamp) (spec.Digest, bool) {
	if x == nil {
		return "", false
	}
	dir, name := path.Split(p)
	files := x.dirs[dir]
	i, ok := slices.BinarySearchFunc(files, name, func(f indexed, name string) int { return strings.Compare(f.name, name) })
	if !ok || files[i].stamp != s {
		return "", false
	}
	return files[i].digest, true
}

// indexes has what is remembered of directories of this host, in a directory; without one
// nothing is.
type indexes struct{ dir string }

const indexMagic = "maestro.index/v2\n"

// indexPath is where the index of a directory lies.
func (s indexes) indexPath(dir string) string {
	return filepath.Join(s.dir, string(DigestOf([]byte(dir))))
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

func encodeIndex(x *index) []byte {
	if x == nil {
		return nil
	}
	b := make([]byte, 0, 128+x.count*128)
	b = append(b, indexMagic...)
	b = append(b, x.manifest...)
	b = binary.AppendUvarint(b, uint64(len(x.dirs)))
	for _, dir := range slices.Sorted(maps.Keys(x.dirs)) {
		files := x.dirs[dir]
		slices.SortFunc(files, func(a, b indexed) int { return strings.Compare(a.name, b.name) })
		b = appendText(b, dir)
		b = binary.AppendUvarint(b, uint64(len(files)))
		for _, f := range files {
			b = appendText(b, f.name)
			b = append(b, f.digest...)
			for _, n := range []uint64{f.stamp.Device, f.stamp.Inode, uint64(f.stamp.Size), uint64(f.stamp.Modified), uint64(f.stamp.Changed)} { //nolint:gosec // read back as they were
				b = binary.LittleEndian.AppendUint64(b, n)
			}
		}
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// decodeIndex returns nil for anything but the whole of what encodeIndex wrote.
func decodeIndex(data []byte) *index {
	body := len(data) - sha256.Size
	if body < 0 {
		return nil
	}
	if sum := sha256.Sum256(data[:body]); !bytes.Equal(sum[:], data[body:]) {
		return nil
	}
	r := &indexReader{rest: string(data[:body])} // names and digests are parts of it
	if r.take(len(indexMagic)) != indexMagic {
		return nil
	}
	x := newIndex(spec.Digest(r.take(64)))
	if !x.manifest.Valid() {
		return nil
	}
	for n := r.count(); n > 0 && !r.bad; n-- {
		dir := r.text()
		files := make([]indexed, r.count())
		for i := range files {
			files[i] = indexed{name: r.text(), digest: spec.Digest(r.take(64)), stamp: r.stamp()}
		}
		x.dirs[dir] = files
		x.count += len(files)
	}
	if r.bad || r.rest != "" {
		return nil
	}
	return x
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

// count is a number of things, of which each takes up a byte at least.
func (r *indexReader) count() int {
	n, width := binary.Uvarint([]byte(r.rest[:min(len(r.rest), binary.MaxVarintLen64)]))
	if width <= 0 || n > uint64(len(r.rest)) {
		r.bad, r.rest = true, ""
		return 0
	}
	r.rest = r.rest[width:]
	return int(n) //nolint:gosec // bounded
}

func (r *indexReader) text() string { return r.take(r.count()) }

func (r *indexReader) stamp() stamp {
	var n [5]uint64
	for i, b := 0, r.take(40); i < len(n) && b != ""; i, b = i+1, b[8:] {
		n[i] = binary.LittleEndian.Uint64([]byte(b[:8]))
	}
	return stamp{Device: n[0], Inode: n[1], Size: int64(n[2]), Modified: int64(n[3]), Changed: int64(n[4])} //nolint:gosec // as they were
}
