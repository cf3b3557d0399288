package storage

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/maestro-hive/maestro/internal/spec"
)

// A pack is a directory with the contents of many small blobs in one file, and an index in
// another. Packs are immutable: to remove blobs, a new pack replaces the old one. The
// modification time of the data file is the last time when any of its blobs was put or used.
//
// In the data file, each content follows its size, so a damaged index can be rebuilt. The index
// is a header with the number of entries, and the entries, sorted by digest. An entry is a binary
// digest, and offset and size of the content. Readers verify the content like that of any blob.
const (
	packsDir  = "blobs/packs"
	packData  = "data"
	packIndex = "index"
	packMagic = "maestro.pack/v1\n"

	packHeader = len(packMagic) + 8
	packEntry  = digestBytes + 12
	packSize   = 4
	// maxPackIndex bounds the size of an index, in bytes: six million blobs.
	maxPackIndex = 256 << 20
	digestBytes  = sha256.Size
	// maxPacked is the size of the largest blob that is packed, in bytes.
	maxPacked = 64 << 10
)

type rawDigest [digestBytes]byte

// parseDigest converts a digest to binary. The error for an invalid digest is ErrKey.
func parseDigest(digest spec.Digest) (r rawDigest, err error) {
	if len(digest) != 2*digestBytes {
		return r, wrongDigest(digest)
	}
	for i := range r {
		high, low := hexDigits[digest[2*i]], hexDigits[digest[2*i+1]]
		if high|low > 0xf {
			return r, wrongDigest(digest)
		}
		r[i] = high<<4 | low
	}
	return r, nil
}

// hexDigits has the value of each lower-case hex digit; 0xff for any other byte.
var hexDigits = func() (values [256]byte) {
	for c := range values {
		values[c] = 0xff
	}
	for value, c := range []byte("0123456789abcdef") {
		values[c] = byte(value)
	}
	return values
}()

// packed is the location of a blob's content in a pack.
type packed struct {
	offset int64
	size   int
}

type entry struct {
	digest rawDigest
	packed
}

func (e entry) compare(to entry) int { return bytes.Compare(e.digest[:], to.digest[:]) }

// encodeIndex sorts the entries and encodes their index.
func encodeIndex(entries []entry) []byte {
	slices.SortFunc(entries, entry.compare)
	index := make([]byte, 0, packHeader+len(entries)*packEntry)
	index = append(index, packMagic...)
	index = binary.LittleEndian.AppendUint64(index, uint64(len(entries)))
	for _, e := range entries {
		index = append(index, e.digest[:]...)
		index = binary.LittleEndian.AppendUint64(index, uint64(e.offset)) //nolint:gosec // of a file
		index = binary.LittleEndian.AppendUint32(index, uint32(e.size))   //nolint:gosec // at most maxPacked
	}
	return index
}

// pack is an open pack's index.
type pack struct {
	dir     string
	entries []byte
	// size is the size of the data in bytes.
	size int64
	// fault says what is wrong with the index file; nil: it is intact.
	fault error
	// used is when this process last marked the pack as used, in nanoseconds.
	used atomic.Int64
}

func (p *pack) data() string { return filepath.Join(p.dir, packData) }

func (p *pack) len() int { return len(p.entries) / packEntry }

// at returns the i-th entry. An entry outside of the data has no content; its digest then does
// not match.
func (p *pack) at(i int) (e entry) {
	from := p.entries[i*packEntry:]
	copy(e.digest[:], from)
	offset, size := binary.LittleEndian.Uint64(from[digestBytes:]), binary.LittleEndian.Uint32(from[digestBytes+8:])
	if end := uint64(p.size); offset <= end && uint64(size) <= end-offset && size <= maxPacked { //nolint:gosec // of a file
		e.packed = packed{int64(offset), int(size)} //nolint:gosec // at most p.size
	}
	return e
}

// all returns all entries.
func (p *pack) all() []entry {
	all := make([]entry, p.len())
	for i := range all {
		all[i] = p.at(i)
	}
	return all
}

// readPack reads the index of a pack, or rebuilds it from the contents if it is damaged. The
// error is fs.ErrNotExist if there is no such pack.
func readPack(dir string) (*pack, error) {
	p := &pack{dir: dir}
	info, err := os.Lstat(p.data())
	if err == nil {
		p.size = info.Size()
	} else if _, there := os.Lstat(dir); there != nil || !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	} else {
		p.fault = errors.New("the pack has no contents")
		return p, nil
	}
	index, err := readIndex(filepath.Join(dir, packIndex))
	if _, there := os.Lstat(dir); err != nil && (there != nil || !errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	if p.fault = checkIndex(index); p.fault == nil {
		p.entries = index[packHeader:]
		return p, nil
	}
	contents, err := p.scan()
	if err != nil {
		return nil, err
	}
	p.entries = encodeIndex(slices.Collect(maps.Values(contents)))[packHeader:]
	return p, nil
}

// readIndex reads an index file, up to maxPackIndex.
func readIndex(path string) ([]byte, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	index := make([]byte, min(info.Size(), maxPackIndex))
	n, err := io.ReadFull(f, index)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	return index[:n], err
}

func checkIndex(index []byte) error {
	if len(index) < packHeader || string(index[:len(packMagic)]) != packMagic {
		return errors.New("the pack has no index, or a damaged one")
	}
	count, entries := binary.LittleEndian.Uint64(index[len(packMagic):]), index[packHeader:]
	if len(entries)%packEntry != 0 || uint64(len(entries)/packEntry) != count {
		return fmt.Errorf("the pack has an index of %d bytes for %d blobs", len(entries), count)
	}
	for ; len(entries) > packEntry; entries = entries[packEntry:] {
		if bytes.Compare(entries[:digestBytes], entries[packEntry:][:digestBytes]) >= 0 {
			return errors.New("the pack has an index that is not sorted")
		}
	}
	return nil
}

// scan finds the contents in the data, up to the first invalid size.
func (p *pack) scan() (map[rawDigest]entry, error) {
	f, err := openFile(p.data())
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	found, r, buf := map[rawDigest]entry{}, bufio.NewReaderSize(f, packBuffer), make([]byte, maxPacked)
	for offset := int64(packSize); ; {
		_, err := io.ReadFull(r, buf[:packSize])
		size := binary.LittleEndian.Uint32(buf)
		if err == nil && size <= maxPacked {
			_, err = io.ReadFull(r, buf[:size])
		}
		if size > maxPacked || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		e := entry{sha256.Sum256(buf[:size]), packed{offset, int(size)}}
		found[e.digest] = e
		offset += int64(size) + packSize
	}
}

// listPacked lists the blobs in packs.
func (d *Directory) listPacked(ctx context.Context, blob func(digest spec.Digest), stray func(key, what string)) error {
	set, err := d.packs.list(d, true)
	if err != nil {
		return err
	}
	for _, p := range set.packs {
		if err := ctx.Err(); err != nil {
			return err
		}
		for i := range p.len() {
			e := p.at(i)
			blob(spec.Digest(hex.EncodeToString(e.digest[:])))
		}
		if p.fault != nil {
			stray(d.Rel(p.dir), p.fault.Error()+"; the index is rebuilt from the contents")
			_ = d.replace(p, p.all()) // if this fails, the next listing tries again
		}
	}
	_, others, err := packNames(d.root)
	for _, path := range others {
		if _, _, ok := generation(filepath.Base(path)); !ok {
			stray(d.Rel(path), notBlob)
		}
	}
	return err
}
