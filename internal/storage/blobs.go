package storage

import (
	"context"
	"io"
	"time"

	"github.com/maestro-hive/maestro/internal/spec"
)

// Blobs keeps content that is written once, under its SHA-256 in lower-case hex. A digest
// that is none is an ErrKey; a blob that is not there is an ErrNotFound. An object store
// has an object for each blob, keeps the time of the last use beside it, and sweeps under
// a lease that UseBlob respects.
type Blobs interface {
	// PutBlob stores content under its digest. What is there already is only marked as
	// used; if it is damaged, it is replaced. made is false if it was there. Before a
	// document is written durably that names a blob, the blob is put durably, or flushed.
	PutBlob(digest spec.Digest, data []byte, d Durability) (made bool, err error)
	// NewBatch begins blobs that are stored together.
	NewBatch() (BlobBatch, error)
	// FlushBlobs makes blobs durable, whoever has put them.
	FlushBlobs(digests []spec.Digest) error
	// OpenBlob reads a blob. The reader compares the content with the digest.
	OpenBlob(digest spec.Digest) (io.ReadCloser, error)
	// BlobReader returns what reads many blobs with less effort than one after the other. It
	// must be closed.
	BlobReader() BlobReader
	// StatBlob returns what is known of a blob without reading it.
	StatBlob(digest spec.Digest) (BlobInfo, error)
	// UseBlob marks a blob as used now. No sweep is then under way that may remove it.
	UseBlob(digest spec.Digest) error
	// ListBlobs calls blob for each blob, at least once, and stray for the key of whatever
	// else lies among them, with what is wrong with it.
	ListBlobs(ctx context.Context, blob func(digest spec.Digest), stray func(key, what string)) error
	// SweepBlobs runs sweep while no blob is marked as used. What remove is called for is
	// gone when SweepBlobs returns.
	SweepBlobs(sweep func(remove func(digest spec.Digest) error) error) error
	// QuarantineBlob moves a damaged blob out of the way and returns its new key. If it
	// has been repaired meanwhile, it stays, and the key is empty.
	QuarantineBlob(ctx context.Context, digest spec.Digest) (string, error)
}

// BlobReader reads many blobs.
type BlobReader interface {
	// OpenBlob reads a blob, as that of [Blobs], until the BlobReader is closed.
	OpenBlob(digest spec.Digest) (io.ReadCloser, error)
	// ReadBlob reads a blob into a buffer and returns its size. The error is
	// [io.ErrShortBuffer] if the blob is not smaller than the buffer.
	ReadBlob(digest spec.Digest, into []byte) (int, error)
	Close() error
}

// BlobBatch is blobs that are stored together. Its methods may be called from many goroutines.
type BlobBatch interface {
	// Put adds a blob as PutBlob does.
	Put(digest spec.Digest, content []byte) error
	// NewBlob begins a blob of any size.
	NewBlob() BlobWriter
	// Commit stores what was added, durably. Before it, none of the blobs is there.
	Commit(ctx context.Context) error
	// Close discards what was not committed.
	Close() error
}

// BlobWriter is a blob that is being written.
type BlobWriter interface {
	io.Writer
	// Add adds what was written to the batch, under its digest.
	Add(digest spec.Digest) error
	// Close discards what was not added.
	Close() error
}

// BlobInfo is what is known of a blob without reading it.
type BlobInfo struct {
	Size int64
	// Used is when it was last put or used. Some blobs are used together.
	Used time.Time
}

const (
	blobDir = "blobs/sha256"
	// digestPrefix is how much of a digest names a directory.
	digestPrefix = 2
)

// BlobKey is the key of a blob, whose digest is valid.
func BlobKey(digest spec.Digest) string {
	return blobDir + "/" + string(digest[:digestPrefix]+"/"+digest[digestPrefix:])
}
