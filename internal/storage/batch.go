package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/spec"
)

// batch implements [BlobBatch]. Until it is committed, its blobs are files in a temporary
// directory, named by their digests.
type batch struct {
	*Directory
	dir string

	mu sync.Mutex
	// put are the blobs of the batch. The value is false for a blob that was stored already.
	put map[spec.Digest]bool
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
	b := &batch{Directory: d, dir: filepath.Join(d.root, tempDir, "batch-"+rand.Text()), put: map[spec.Digest]bool{}}
	return b, os.MkdirAll(b.dir, dirMode)
}

// temp returns the path of the temporary file of a blob.
func (b *batch) temp(digest spec.Digest) string { return b.dir + "/" + string(digest) }

// begins reports whether the batch has not seen the blob yet.
func (b *batch) begins(digest spec.Digest) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, seen := b.put[digest]
	if !seen {
		b.put[digest] = false
	}
	return !seen
}

func (b *batch) written(digest spec.Digest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put[digest] = true
}

// Put implements [BlobBatch]. A damaged blob is replaced.
func (b *batch) Put(digest spec.Digest, content []byte) error {
	path, err := b.blobPath(digest)
	if err != nil || !b.begins(digest) {
		return err
	}
	if same, err := b.holds(digest, content); same || err != nil {
		return err
	}
	f, err := createFile(b.temp(digest))
	if err != nil {
		return err
	}
	failpoint.Torn(path, f, content)
	if err := writeAll(f, content, false); err != nil {
		return err
	}
	b.written(digest)
	return nil
}

// NewBlob implements [BlobBatch].
func (b *batch) NewBlob() (BlobWriter, error) {
	f, err := createFile(b.temp(spec.Digest("new-" + rand.Text())))
	return &blobWriter{f, b}, err
}

// blobWriter writes a blob to a temporary file of its batch.
type blobWriter struct {
	*os.File
	batch *batch
}

// Add implements [BlobWriter].
func (w *blobWriter) Add(digest spec.Digest) error {
	if _, err := w.batch.blobPath(digest); err != nil || !w.batch.begins(digest) {
		return err
	}
	if err := rename(w.Name(), w.batch.temp(digest)); err != nil {
		return err
	}
	w.batch.written(digest)
	return nil
}

// OpenBlob implements [BlobBatch].
func (b *batch) OpenBlob(digest spec.Digest) (io.ReadCloser, error) {
	if _, err := b.blobPath(digest); err != nil {
		return nil, err
	}
	return openBlobFile(b.temp(digest))
}

// StatBlob implements [BlobBatch].
func (b *batch) StatBlob(digest spec.Digest) (info BlobInfo, err error) {
	if _, err := b.blobPath(digest); err != nil {
		return info, err
	}
	return statBlobFile(b.temp(digest))
}

// Commit implements [BlobBatch]. While it holds the lock, no sweep removes a blob that it replaces.
func (b *batch) Commit(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	digests := make([]spec.Digest, 0, len(b.put))
	err := b.withSweepLock(unix.LOCK_SH, func() error {
		for digest, written := range b.put {
			digests = append(digests, digest)
			if !written {
				continue
			}
			if err := errors.Join(ctx.Err(), b.install(b.temp(digest), b.blobFile(digest))); err != nil {
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
