package storage

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/spec"
)

// packBuffer is how much is written to a pack at a time, in bytes.
const packBuffer = 1 << 20

// packing is a pack that is being written, in a temporary directory.
type packing struct {
	*Directory
	dir     string
	file    *os.File
	data    *bufio.Writer
	size    int64
	entries []entry
}

func (d *Directory) newPacking() (*packing, error) {
	p := &packing{Directory: d, dir: filepath.Join(d.root, tempDir, "pack-"+rand.Text())}
	if err := d.makeDir(p.dir, UntilPowerLoss); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *packing) path(name string) string { return filepath.Join(p.dir, name) }

// add adds the content of a blob that it does not have yet.
func (p *packing) add(digest rawDigest, content []byte) (err error) {
	if p.file == nil {
		if p.file, err = createFile(p.path(packData)); err != nil {
			return err
		}
		p.data = bufio.NewWriterSize(p.file, packBuffer)
	}
	var size [packSize]byte
	binary.LittleEndian.PutUint32(size[:], uint32(len(content))) //nolint:gosec // at most maxPacked
	if _, err := p.data.Write(size[:]); err != nil {
		return err
	}
	p.entries = append(p.entries, entry{digest, packed{p.size + packSize, len(content)}})
	p.size += packSize + int64(len(content))
	_, err = p.data.Write(content)
	return err
}

// finish writes what is left, and flushes the pack. It has contents, or a link to those of
// another pack.
func (p *packing) finish() error {
	if p.file != nil {
		if err := p.data.Flush(); err != nil {
			return err
		}
		failpoint.Here("pack: contents")
		if !p.unflushed {
			if err := p.file.Sync(); err != nil {
				return err
			}
		}
		if err := p.file.Close(); err != nil {
			return err
		}
	}
	index := encodeIndex(p.entries)
	f, err := createFile(p.path(packIndex))
	if err != nil {
		return err
	}
	failpoint.Torn(p.path(packIndex), f, index)
	if err := writeAll(f, index, p.limited(Durable)); err != nil {
		_ = os.Remove(p.path(packIndex))
		return err
	}
	if p.unflushed {
		return nil
	}
	return syncDir(p.dir)
}

// publish gives a finished pack its name.
func (p *packing) publish(series string, number int) error {
	failpoint.Here("pack: finished")
	name := fmt.Sprintf("%s%0*d", series, generationDigits, number)
	return p.install(p.dir, filepath.Join(p.root, filepath.FromSlash(packsDir), name), Durable)
}

// publishOver puts a finished pack in the place of another. The error is fs.ErrNotExist or
// fs.ErrExist if another process has done so.
func (p *packing) publishOver(old *pack) error {
	series, number, _ := generation(filepath.Base(old.dir))
	if err := p.publish(series, number+1); err != nil {
		return err
	}
	failpoint.Here("pack: twice")
	return p.discard(old.dir)
}

// close removes what was not published.
func (p *packing) close() error {
	if p.file != nil {
		_ = p.file.Close() // again, if it is finished
	}
	return os.RemoveAll(p.dir)
}

// replace puts a pack with the same contents, but other entries, in the place of another.
func (d *Directory) replace(old *pack, entries []entry) (err error) {
	if len(entries) == 0 {
		return d.discard(old.dir)
	}
	p, err := d.newPacking()
	if err != nil {
		return err
	}
	defer closing(closer(p.close), &err)
	p.entries = entries
	if err := os.Link(old.data(), p.path(packData)); err != nil {
		return err
	}
	// On a full disk, an index is small enough for the reserve.
	if err := d.withReserve(p.finish); err != nil {
		return err
	}
	return p.publishOver(old)
}

type closer func() error

func (c closer) Close() error { return c() }

// replaced tells of an error that another process has replaced a pack.
func replaced(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) }

// discard removes a pack, at once.
func (d *Directory) discard(dir string) error {
	temp := filepath.Join(d.root, tempDir, "gone-"+rand.Text())
	if err := rename(dir, temp); err != nil {
		if errors.Is(err, fs.ErrNotExist) { // another process has replaced it
			return nil
		}
		return err
	}
	failpoint.Here("pack: discarded")
	_ = os.RemoveAll(temp) // what is left is swept away later
	return nil
}

// wasted is the part of its contents from which on a pack is written again: a quarter.
const wasted = 4

// compact writes packs again of which too much is not used any more.
func (d *Directory) compact() error {
	set, err := d.packs.list(d, true)
	if err != nil {
		return err
	}
	for _, p := range set.packs {
		info, err := os.Lstat(p.data())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		used := int64(0)
		for i := range p.len() {
			used += packSize + int64(p.at(i).size)
		}
		if info.Size()-used <= info.Size()/wasted {
			continue
		}
		// Without room, or with contents that are not whole, it stays.
		if err := d.rewrite(p); err != nil && !IsFull(err) && !errors.Is(err, io.EOF) && !replaced(err) {
			return fmt.Errorf("write a pack of blobs again: %w", err)
		}
	}
	return nil
}

// rewrite puts a pack with what is used of the contents in the place of another. It is
// written beside all that goes on, and named while nobody marks a blob as used, so that it
// was used when the other one was.
func (d *Directory) rewrite(old *pack) (err error) {
	p, err := d.newPacking()
	if err != nil {
		return err
	}
	defer closing(closer(p.close), &err)
	if err := p.copyOf(old); err != nil {
		return err
	}
	if err := p.finish(); err != nil {
		return err
	}
	return d.withSweepLock(unix.LOCK_EX, func() error {
		info, err := os.Lstat(old.data())
		if err != nil { // others have replaced it
			return err
		}
		if err := os.Chtimes(p.path(packData), info.ModTime(), info.ModTime()); err != nil {
			return err
		}
		return p.publishOver(old)
	})
}

// copyOf adds the contents of another pack, in the order in which they lie there.
func (p *packing) copyOf(old *pack) error {
	f, err := openFile(old.data())
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	all := old.all()
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.offset, b.offset) })
	buf := make([]byte, maxPacked)
	for _, e := range all {
		if _, err := f.ReadAt(buf[:e.size], e.offset); err != nil {
			return err
		}
		if err := p.add(e.digest, buf[:e.size]); err != nil {
			return err
		}
	}
	return nil
}

// sweptPacks are blobs that a sweep removes from the packs that there were when it began.
type sweptPacks struct {
	packs *packSet
	gone  map[*pack]map[rawDigest]struct{}
}

// begin lists the packs, and discards those that are replaced by processes that died before
// they did so.
func (s *sweptPacks) begin(d *Directory) error {
	_, others, err := packNames(d.root)
	for _, path := range others {
		if _, _, ok := generation(filepath.Base(path)); ok {
			err = errors.Join(err, d.discard(path))
		}
	}
	if err == nil {
		s.packs, err = d.packs.list(d, true)
	}
	return err
}

func (s *sweptPacks) remove(digest spec.Digest) {
	name, _ := raw(digest) // of nothing else that is stored
	_ = s.packs.each(name, func(p *pack, _ packed) error {
		if s.gone == nil {
			s.gone = map[*pack]map[rawDigest]struct{}{}
		}
		if s.gone[p] == nil {
			s.gone[p] = map[rawDigest]struct{}{}
		}
		s.gone[p][name] = struct{}{}
		return nil
	})
}

// sweep removes them. Packs that others have replaced meanwhile keep them until the next sweep.
func (s *sweptPacks) sweep(d *Directory) error {
	for p, gone := range s.gone {
		kept := slices.DeleteFunc(p.all(), func(e entry) bool {
			_, is := gone[e.digest]
			return is
		})
		if err := d.replace(p, kept); err != nil && !replaced(err) {
			return fmt.Errorf("remove blobs from a pack: %w", err)
		}
	}
	return nil
}

// quarantinePacked moves damaged copies of a blob in packs out of the way, and returns the new
// key of one; empty: all were intact.
func (d *Directory) quarantinePacked(digest spec.Digest) (moved string, err error) {
	name, err := raw(digest)
	if err != nil {
		return "", err
	}
	damaged := map[*pack][]byte{}
	r := d.reader(false)
	defer r.Close() //nolint:errcheck // only read
	err = d.inPacks(digest, false, func(p *pack, at packed) error {
		f, err := r.dataOf(p)
		if err != nil {
			return err
		}
		content := make([]byte, at.size)
		n, err := f.ReadAt(content, at.offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if VersionOf(content[:n]) != Version(digest) {
			damaged[p] = content[:n]
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	for p, content := range damaged {
		to := d.quarantined(d.blobFile(digest))
		if err := d.WriteFile(to, content, UntilPowerLoss); err != nil {
			return "", err
		}
		if err := d.removeDamaged(p, name, content); err != nil && !replaced(err) {
			return "", err
		}
		moved = d.Rel(to)
	}
	return moved, nil
}

// removeDamaged puts a pack without a blob in the place of another. The index may be what is
// damaged: then the blob is elsewhere in the data, or what was found is another one.
func (d *Directory) removeDamaged(old *pack, digest rawDigest, content []byte) error {
	found, err := old.scan()
	if err != nil {
		return err
	}
	entries := map[rawDigest]entry{}
	for _, e := range old.all() {
		entries[e.digest] = e
	}
	delete(entries, digest)
	for _, name := range []rawDigest{digest, sha256.Sum256(content)} {
		if e, ok := found[name]; ok {
			entries[name] = e
		}
	}
	return d.replace(old, slices.Collect(maps.Values(entries)))
}
