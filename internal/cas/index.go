package cas

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// stamp tells one state of a file from another without reading it.
type stamp struct {
	Device, Inode uint64
	// Size in bytes; the times in nanoseconds.
	Size, Modified, Changed int64
}

// indexed is a file whose content was known when it bore the stamp.
type indexed struct {
	stamp  stamp
	digest spec.Digest
}

// index is what the store remembers of a directory, so that an unchanged file
// need not be read again. It is a cache: without it everything is read.
type index struct {
	// manifest is a tree that holds every content in files. While it is in the
	// store, so are they.
	manifest spec.Digest
	files    map[string]indexed
}

// known returns the digest of the file at the path if it is as it was.
func (x *index) known(p string, s stamp) (spec.Digest, bool) {
	if x == nil {
		return "", false
	}
	f, ok := x.files[p]
	if !ok || f.stamp != s {
		return "", false
	}
	return f.digest, true
}

// indexes has what is remembered of directories of this host, in a directory; without one
// nothing is.
type indexes struct{ dir string }

const indexMagic = "maestro.index/v1\n"

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

// saveIndex remembers a directory. A failure only costs time later, and so does a file that
// was not written to its end: its checksum is wrong.
func (s indexes) saveIndex(dir string, x *index) {
	// Only its parent is the store: what makes more could fill a mount point.
	if err := os.Mkdir(s.dir, dirMode); err == nil || errors.Is(err, fs.ErrExist) {
		_ = os.WriteFile(s.indexPath(dir), encodeIndex(x), fileMode)
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
	b := make([]byte, 0, 128+len(x.files)*128)
	b = append(b, indexMagic...)
	b = append(b, x.manifest...)
	b = binary.AppendUvarint(b, uint64(len(x.files)))
	for _, p := range slices.Sorted(maps.Keys(x.files)) {
		f := x.files[p]
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
		b, _ = hex.AppendDecode(b, []byte(f.digest))
		b = binary.AppendUvarint(b, f.stamp.Device)
		b = binary.AppendUvarint(b, f.stamp.Inode)
		b = binary.AppendVarint(b, f.stamp.Size)
		b = binary.AppendVarint(b, f.stamp.Modified)
		b = binary.AppendVarint(b, f.stamp.Changed)
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
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
	r := &indexReader{rest: data[:body]}
	if string(r.take(len(indexMagic))) != indexMagic {
		return nil
	}
	x := &index{manifest: spec.Digest(r.take(64))}
	n := r.uvarint()
	if n > uint64(len(data)) || !x.manifest.Valid() {
		return nil
	}
	x.files = make(map[string]indexed, n)
	for range n {
		p := string(r.take(int(min(r.uvarint(), MaxPath)))) // bounded
		x.files[p] = indexed{
			digest: spec.Digest(hex.EncodeToString(r.take(sha256.Size))),
			stamp: stamp{
				Device: r.uvarint(), Inode: r.uvarint(),
				Size: r.varint(), Modified: r.varint(), Changed: r.varint(),
			},
		}
	}
	if r.bad || len(r.rest) > 0 {
		return nil
	}
	return x
}

// indexReader takes an index apart; bad once there was too little.
type indexReader struct {
	rest []byte
	bad  bool
}

func (r *indexReader) take(n int) []byte {
	if n > len(r.rest) {
		r.bad, r.rest = true, nil
		return nil
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

func (r *indexReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.skip(n)
	return v
}

func (r *indexReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	r.skip(n)
	return v
}

func (r *indexReader) skip(n int) {
	if n <= 0 {
		r.bad, r.rest = true, nil
		return
	}
	r.rest = r.rest[n:]
}

// holds reports whether the index says exactly this already.
func (x *index) holds(manifest spec.Digest, files map[string]indexed) bool {
	return x != nil && x.manifest == manifest && maps.Equal(x.files, files)
}
