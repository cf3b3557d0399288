package storage

import (
	"context"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/maestro-hive/maestro/internal/spec"
)

// Blobs keeps content that is written once, under its SHA-256 in lower-case hex. A digest
// that is none is an ErrKey; a blob that is not there is an ErrNotFound. An object store
// has an object for each blob, keeps the time of the last use beside it, and sweeps under
// a lease that UseBlob respects.
type Blobs interface {
	// PutBlob stores content under its digest. What is there already is only marked as
	// used; if it is damaged, it is replaced. made is the blob that the call has made; nil:
	// it was there. Before a document is written durably that names a blob, the blob is
	// put durably, or flushed.
	PutBlob(digest spec.Digest, data []byte, d Durability) (made *BlobInfo, err error)
	// NewBlob begins a blob of any size.
	NewBlob() (BlobWriter, error)
	// FlushBlobs makes blobs durable, whoever has put them.
	FlushBlobs(digests []spec.Digest) error
	// OpenBlob reads a blob. The reader compares the content with the digest.
	OpenBlob(digest spec.Digest) (io.ReadCloser, error)
	// StatBlob returns what is known of a blob without reading it.
	StatBlob(digest spec.Digest) (BlobInfo, error)
	// UseBlob marks a blob as used now. No sweep is then under way that may remove it.
	UseBlob(digest spec.Digest) error
	// ListBlobs calls blob for each blob, and stray for the key of whatever else lies
	// among them.
	ListBlobs(ctx context.Context, blob func(digest spec.Digest), stray func(key string)) error
	// SweepBlobs runs sweep while no blob is marked as used. remove removes a blob.
	SweepBlobs(sweep func(remove func(digest spec.Digest) error) error) error
	// QuarantineBlob moves a damaged blob out of the way and returns its new key. If it
	// has been repaired meanwhile, it stays, and the key is empty.
	QuarantineBlob(ctx context.Context, digest spec.Digest) (string, error)
}

// BlobWriter is a blob that is being written.
type BlobWriter interface {
	io.Writer
	// Commit stores what was written under its digest, as PutBlob does until a power loss.
	Commit(ctx context.Context, digest spec.Digest) (made *BlobInfo, err error)
	// Close discards what was not committed.
	Close() error
}

// BlobInfo is what is known of a blob without reading it.
type BlobInfo struct {
	Size int64
	// Used is when it was last put or used.
	Used time.Time
	file fs.FileInfo
}

// Untouched reports whether nobody has put or used the blob until a later look at it.
func (b BlobInfo) Untouched(later BlobInfo) bool {
	return b.Used.Equal(later.Used) && b.Size == later.Size && (b.file == nil || os.SameFile(b.file, later.file))
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
