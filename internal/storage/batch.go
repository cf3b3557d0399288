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

// A batch with more blobs or bytes than these packs its small blobs. The blobs of a smaller batch
// get files of their own.
const (
	fewBlobs = 256
	fewBytes = 8 << 20
)

// batch implements [BlobBatch]. Until it is committed, its blobs are in memory and in temporary
// files.
type batch struct {
	*Directory
	stored *blobReader

	mu sync.Mutex
	// seen are the digests of the batch's blobs, so that each is stored once.
	seen  map[rawDigest]struct{}
	small []smallBlob
	size  int
	// pack contains the small blobs; nil: the batch is too small for a pack.
	pack *packWriter
	// files are temporary files that become blobs. flush are blobs with files that have to be
	// flushed.
	files []tempBlob
	flush []spec.Digest
}

type smallBlob struct {
	digest  spec.Digest
	name    rawDigest
	content []byte
}

// tempBlob is a temporary file that is to become a blob.
type tempBlob struct {
	path   string
	digest spec.Digest
	size   int64
}

// NewBatch implements [Blobs].
func (d *Directory) NewBatch() (BlobBatch, error) {
	b, err := d.newBatch()
	if err != nil {
		return nil, err // a nil *batch would be a non-nil BlobBatch
	}
	return b, nil
}

func (d *Directory) newBatch() (*batch, error) {
	if _, err := d.packs.list(d, true); err != nil {
		return nil, err
	}
	return &batch{Directory: d, stored: d.reader(true), seen: map[rawDigest]struct{}{}}, nil
}

// begins reports whether the batch has not seen the blob yet, and whether it packs small blobs.
func (b *batch) begins(name rawDigest) (first, packs bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, seen := b.seen[name]
	b.seen[name] = struct{}{}
	return !seen, b.pack != nil
}

// Put implements [BlobBatch]. It does not check whether a blob that is packed has a file of its
// own: the check would take longer than to write the blob again.
func (b *batch) Put(digest spec.Digest, content []byte) error {
	name, err := parseDigest(digest)
	if err != nil {
		return err
	}
	first, packs := b.begins(name)
	if !first {
		return nil
	}
	open := b.stored.OpenBlob
	if packs && len(content) <= maxPacked {
		open = func(digest spec.Digest) (io.ReadCloser, error) { return b.stored.openPacked(digest, true) }
	}
	found, same, err := b.stored.holds(open, digest, content)
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
	b.small = append(b.small, s)
	if b.size += len(s.content); len(b.small) <= fewBlobs && b.size <= fewBytes {
		return nil
	}
	if b.pack, err = b.newPackWriter(); err != nil {
		return err
	}
	for _, s := range b.small {
		if err := b.pack.add(s.name, s.content); err != nil {
			return err
		}
	}
	b.small = nil
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

// blobWriter writes a blob to memory while it is small, and to a temporary file when it is
// larger.
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
	name, err := parseDigest(digest)
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

// Commit implements [BlobBatch]. It writes everything before the first blob becomes visible.
func (b *batch) Commit(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.small {
		temp, err := b.writeTempOnce(b.blobFile(s.digest), s.content, UntilPowerLoss)
		if err != nil {
			return err
		}
		b.files, b.flush = append(b.files, tempBlob{temp, s.digest, int64(len(s.content))}), append(b.flush, s.digest)
	}
	b.small = nil
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
	err := b.stored.Close()
	if b.pack != nil {
		err = errors.Join(err, b.pack.close())
	}
	for _, f := range b.files {
		_ = os.Remove(f.path) // fails if it was installed
	}
	return err
}
