package storage

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/maestro-hive/maestro/internal/spec"
)

// Up to so many blobs of a batch, of so many bytes together, get files of their own; more are
// packed.
const (
	fewBlobs = 256
	fewBytes = 8 << 20
)

// batch implements [BlobBatch]. Until it is committed, it is in memory and in temporary files.
type batch struct {
	*Directory
	there *blobReader

	mu sync.Mutex
	// seen are the blobs of the batch, so that each is stored once.
	seen map[rawDigest]struct{}
	few  []smallBlob
	size int
	// pack has the small blobs; nil: they are few.
	pack *packing
	// files are temporary files that become blobs, and flush the blobs that have files.
	files []tempBlob
	flush []spec.Digest
}

type smallBlob struct {
	digest  spec.Digest
	name    rawDigest
	content []byte
}

// tempBlob is a file that is to become a blob.
type tempBlob struct {
	path   string
	digest spec.Digest
	size   int64
}

// NewBatch implements [Blobs].
func (d *Directory) NewBatch() (BlobBatch, error) {
	b, err := d.newBatch()
	if err != nil {
		return nil, err // and not a batch that is nil
	}
	return b, nil
}

func (d *Directory) newBatch() (*batch, error) {
	if _, err := d.packs.list(d, true); err != nil {
		return nil, err
	}
	return &batch{Directory: d, there: d.reader(true), seen: map[rawDigest]struct{}{}}, nil
}

// begins reports whether the batch has not seen a blob yet, and whether it packs small blobs.
func (b *batch) begins(name rawDigest) (first, packs bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, seen := b.seen[name]
	b.seen[name] = struct{}{}
	return !seen, b.pack != nil
}

// Put implements [BlobBatch]. Nobody looks whether a blob that is packed has a file of its own:
// that would take longer than to write it once more.
func (b *batch) Put(digest spec.Digest, content []byte) error {
	name, err := raw(digest)
	if err != nil {
		return err
	}
	first, packs := b.begins(name)
	if !first {
		return nil
	}
	open := b.there.OpenBlob
	if packs && len(content) <= maxPacked {
		open = func(digest spec.Digest) (io.ReadCloser, error) { return b.there.openPacked(digest, true) }
	}
	found, same, err := b.there.holds(open, digest, content)
	switch {
	case err != nil:
		return err
	case same:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.flush = append(b.flush, digest)
		return nil
	case !found && len(content) <= maxPacked:
		return b.addSmall(smallBlob{digest, name, content})
	}
	// A damaged file is replaced.
	temp, err := b.writeTempOnce(b.blobFile(digest), content, UntilPowerLoss)
	if err == nil {
		b.addFile(tempBlob{temp, digest, int64(len(content))})
	}
	return err
}

func (b *batch) addSmall(s smallBlob) (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pack != nil {
		return b.pack.add(s.name, s.content)
	}
	s.content = bytes.Clone(s.content)
	b.few = append(b.few, s)
	if b.size += len(s.content); len(b.few) <= fewBlobs && b.size <= fewBytes {
		return nil
	}
	if b.pack, err = b.newPacking(); err != nil {
		return err
	}
	for _, s := range b.few {
		if err := b.pack.add(s.name, s.content); err != nil {
			return err
		}
	}
	b.few = nil
	return nil
}

func (b *batch) addFile(t tempBlob) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files = append(b.files, t)
	b.flush = append(b.flush, t.digest)
}

// NewBlob implements [BlobBatch].
func (b *batch) NewBlob() BlobWriter {
	return &blobWriter{batch: b}
}

// blobWriter is a blob that is written to memory as long as it is small, and then to a
// temporary file.
type blobWriter struct {
	batch *batch
	small []byte
	file  *os.File
	size  int64
	added bool
}

// Write implements [BlobWriter].
func (w *blobWriter) Write(p []byte) (n int, err error) {
	if w.file == nil {
		if len(w.small)+len(p) <= maxPacked {
			w.small = append(w.small, p...)
			return len(p), nil
		}
		if w.file, err = w.batch.temp(); err != nil {
			return 0, err
		}
		n, err = w.file.Write(w.small)
		if w.size = int64(n); err != nil {
			return 0, err
		}
	}
	n, err = w.file.Write(p)
	w.size += int64(n)
	return n, err
}

// Add implements [BlobWriter].
func (w *blobWriter) Add(digest spec.Digest) error {
	if w.file == nil {
		return w.batch.Put(digest, w.small)
	}
	name, err := raw(digest)
	if err != nil {
		return err
	}
	if err := w.file.Close(); err != nil {
		return err
	}
	if w.added, _ = w.batch.begins(name); w.added {
		w.batch.addFile(tempBlob{w.file.Name(), digest, w.size})
	}
	return nil
}

// Close implements [BlobWriter].
func (w *blobWriter) Close() error {
	if w.file == nil || w.added {
		return nil
	}
	_ = w.file.Close()
	return os.Remove(w.file.Name())
}

// Commit implements [BlobBatch]. All is written before the first blob gets its name.
func (b *batch) Commit(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.few {
		temp, err := b.writeTempOnce(b.blobFile(s.digest), s.content, UntilPowerLoss)
		if err != nil {
			return err
		}
		b.files, b.flush = append(b.files, tempBlob{temp, s.digest, int64(len(s.content))}), append(b.flush, s.digest)
	}
	b.few = nil
	if b.pack != nil {
		if err := b.pack.finish(); err != nil {
			return err
		}
		if err := b.pack.publish(rand.Text()+"-", 0); err != nil {
			return err
		}
	}
	for _, f := range b.files {
		if err := b.installBlob(ctx, f); err != nil {
			return err
		}
	}
	return b.FlushBlobs(b.flush)
}

// Close implements [BlobBatch].
func (b *batch) Close() error {
	err := b.there.Close()
	if b.pack != nil {
		err = errors.Join(err, b.pack.close())
	}
	for _, f := range b.files {
		_ = os.Remove(f.path) // it is gone if it was installed
	}
	return err
}
