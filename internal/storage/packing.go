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

	"github.com/maestro-hive/maestro/internal/diskspace"
	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/spec"
)

// packBuffer is the size of a pack writer's buffer, in bytes.
const packBuffer = 1 << 20

// packWriter writes a pack in a temporary directory.
type packWriter struct {
	*Directory
	dir     string
	file    *os.File
	data    *bufio.Writer
	size    int64
	entries []entry
}

func (d *Directory) newPackWriter() (*packWriter, error) {
	p := &packWriter{Directory: d, dir: filepath.Join(d.root, tempDir, "pack-"+rand.Text())}
	if err := d.makeDir(p.dir, UntilPowerLoss); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *packWriter) path(name string) string { return filepath.Join(p.dir, name) }

// add adds a blob that the pack does not contain yet.
func (p *packWriter) add(digest rawDigest, content []byte) (err error) {
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

// finish writes the index and flushes the pack. If no content was added, the data file must be a
// link to that of another pack.
func (p *packWriter) finish() error {
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

// publish renames a finished pack to its final name, which makes it visible.
func (p *packWriter) publish(series string, number int) error {
	failpoint.Here("pack: finished")
	name := fmt.Sprintf("%s%0*d", series, generationDigits, number)
	return p.install(p.dir, filepath.Join(p.root, filepath.FromSlash(packsDir), name), Durable)
}

// publishOver replaces a pack by a finished pack. The error is fs.ErrNotExist or fs.ErrExist if
// another process has replaced it already.
func (p *packWriter) publishOver(old *pack) error {
	series, number, _ := generation(filepath.Base(old.dir))
	if err := p.publish(series, number+1); err != nil {
		return err
	}
	failpoint.Here("pack: twice")
	return p.discard(old.dir)
}

// close removes the temporary directory, unless the pack was published.
func (p *packWriter) close() error {
	if p.file != nil {
		_ = p.file.Close() // after finish, it is closed already
	}
	return os.RemoveAll(p.dir)
}

// replace replaces a pack by one with the same data file and other entries.
func (d *Directory) replace(old *pack, entries []entry) (err error) {
	if len(entries) == 0 {
		return d.discard(old.dir)
	}
	p, err := d.newPackWriter()
	if err != nil {
		return err
	}
	defer closing(closer(p.close), &err)
	p.entries = entries
	if err := os.Link(old.data(), p.path(packData)); err != nil {
		return err
	}
	// An index is small enough for the reserved disk space.
	if err := d.withReserve(p.finish); err != nil {
		return err
	}
	return p.publishOver(old)
}

type closer func() error

func (c closer) Close() error { return c() }

// isReplaced reports whether an error says that another process has replaced a pack.
func isReplaced(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) }

// discard removes a pack atomically.
func (d *Directory) discard(dir string) error {
	temp := filepath.Join(d.root, tempDir, "gone-"+rand.Text())
	if err := rename(dir, temp); err != nil {
		if errors.Is(err, fs.ErrNotExist) { // another process has replaced it
			return nil
		}
		return err
	}
	failpoint.Here("pack: discarded")
	_ = os.RemoveAll(temp) // RemoveOldTemp removes leftovers
	return nil
}

// A pack is rewritten if more than 1/wasted of its data is unused.
const wasted = 4

// compact rewrites packs with a large unused part.
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
		// Keep the pack if the disk is full or its data is truncated.
		if err := d.rewrite(p); err != nil && !diskspace.IsFull(err) && !errors.Is(err, io.EOF) && !isReplaced(err) {
			return fmt.Errorf("rewrite a pack of blobs: %w", err)
		}
	}
	return nil
}

// rewrite replaces a pack by one with only the used contents. It writes the new pack without the
// sweep lock, and publishes it under the lock with the modification time of the old pack. So no
// mark as used is lost.
func (d *Directory) rewrite(old *pack) (err error) {
	p, err := d.newPackWriter()
	if err != nil {
		return err
	}
	defer closing(closer(p.close), &err)
	if err := p.addAll(old); err != nil {
		return err
	}
	if err := p.finish(); err != nil {
		return err
	}
	return d.withSweepLock(unix.LOCK_EX, func() error {
		info, err := os.Lstat(old.data())
		if err != nil { // another process has replaced it
			return err
		}
		if err := os.Chtimes(p.path(packData), info.ModTime(), info.ModTime()); err != nil {
			return err
		}
		return p.publishOver(old)
	})
}

// addAll adds the contents of another pack, in the order of their offsets.
func (p *packWriter) addAll(old *pack) error {
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

// sweptPacks collects the blobs that a sweep removes from the packs that existed when it began.
type sweptPacks struct {
	packs *packSet
	gone  map[*pack]map[rawDigest]struct{}
}

// begin lists the packs. It discards packs that have a replacement but were not removed, because
// a process died.
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
	name, _ := parseDigest(digest) // stored digests are valid
	_ = s.packs.eachCopy(name, func(p *pack, _ packed) error {
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

// sweep removes the collected blobs. A pack that another process has replaced keeps them until
// the next sweep.
func (s *sweptPacks) sweep(d *Directory) error {
	for p, gone := range s.gone {
		kept := slices.DeleteFunc(p.all(), func(e entry) bool {
			_, is := gone[e.digest]
			return is
		})
		if err := d.replace(p, kept); err != nil && !isReplaced(err) {
			return fmt.Errorf("remove blobs from a pack: %w", err)
		}
	}
	return nil
}

// quarantinePacked moves damaged copies of a blob from packs to the quarantine. It returns the
// new key of one of them; empty: all copies were intact.
func (d *Directory) quarantinePacked(digest spec.Digest) (moved string, err error) {
	name, err := parseDigest(digest)
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
		if err := d.removeDamaged(p, name, content); err != nil && !isReplaced(err) {
			return "", err
		}
		moved = d.Rel(to)
	}
	return moved, nil
}

// removeDamaged replaces a pack by one without the damaged blob. If the index was damaged, the
// blob may be elsewhere in the data, or the content may belong to another blob.
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
