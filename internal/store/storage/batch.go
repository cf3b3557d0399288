package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/failpoint"
)

// batch implements [BlobBatch]. Until it is committed, its blobs are files in a temporary directory.
type batch struct {
	*Directory
	dir string

	mu sync.Mutex
	// put has the files of the batch's blobs; empty for a blob that was stored already.
	put map[spec.Digest]string
}

// NewBatch implements [Blobs].
func (d *Directory) NewBatch() (BlobBatch, error) {
	b := &batch{Directory: d, dir: filepath.Join(d.root, tempDir, "batch-"+rand.Text()), put: map[spec.Digest]string{}}
	return b, os.MkdirAll(b.dir, dirMode)
}

// note adds a blob, unless the batch has it.
func (b *batch) note(digest spec.Digest, file string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, has := b.put[digest]; !has {
		b.put[digest] = file
	}
}

// file returns the file of a blob; empty if the batch has none.
func (b *batch) file(digest spec.Digest) (string, error) {
	if !digest.Valid() {
		return "", wrongDigest(digest)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.put[digest], nil
}

// Put implements [BlobBatch]. A damaged blob is replaced.
func (b *batch) Put(ctx context.Context, digest spec.Digest, content []byte) error {
	has, err := b.file(digest)
	if err != nil || has != "" {
		return err
	}
	same, err := b.holds(ctx, digest, content)
	if same {
		b.note(digest, "")
	}
	if same || err != nil {
		return err
	}
	return b.write(digest, content)
}

// write writes a blob to a temporary file of the batch.
func (b *batch) write(digest spec.Digest, content []byte) error {
	f, err := os.CreateTemp(b.dir, "blob-")
	if err != nil {
		return err
	}
	failpoint.Torn(b.blobFile(digest), f, content)
	if err := writeAll(f, content, false); err != nil {
		return err
	}
	b.note(digest, f.Name())
	return nil
}

// NewBlob implements [BlobBatch].
func (b *batch) NewBlob() (*BlobWriter, error) {
	f, err := os.CreateTemp(b.dir, "blob-")
	return &BlobWriter{f, b}, err
}

// BlobWriter writes a blob of any size to a temporary file of its batch. Close discards it unless it was added.
type BlobWriter struct {
	*os.File
	batch *batch
}

// Add adds the written content to the batch, under its digest.
func (w *BlobWriter) Add(digest spec.Digest) error {
	_, err := w.batch.file(digest)
	if err == nil {
		w.batch.note(digest, w.Name())
	}
	return err
}

// Commit implements [BlobBatch]. While it holds the lock, no sweep removes a blob that it replaces.
func (b *batch) Commit(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	digests := make([]spec.Digest, 0, len(b.put))
	err := b.withSweepLock(unix.LOCK_SH, func() error {
		for digest, file := range b.put {
			digests = append(digests, digest)
			if file == "" {
				continue
			}
			if err := errors.Join(ctx.Err(), b.install(file, b.blobFile(digest))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.flushBlobs(digests)
}

// Close implements [BlobBatch].
func (b *batch) Close() error { return os.RemoveAll(b.dir) }
