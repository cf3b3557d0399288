package storage

import (
	"context"
	"os"
	"path"
	"time"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Blobs stores immutable content under its SHA-256 in lower-case hex. An invalid digest is an
// ErrKey; a missing blob is an ErrNotFound.
type Blobs interface {
	// PutBlob stores content under its digest, durably. A blob that exists is only marked as used; if it
	// is damaged, it is replaced.
	PutBlob(digest spec.Digest, data []byte) error
	// NewBatch starts a batch of blobs that are stored together.
	NewBatch() (BlobBatch, error)
	// OpenBlob opens a blob for reading. The caller has to verify the digest.
	OpenBlob(digest spec.Digest) (*os.File, error)
	// StatBlob returns a blob's metadata.
	StatBlob(digest spec.Digest) (BlobInfo, error)
	// UseBlob marks a blob as used now. It waits for a sweep, so a sweep does not remove the blob
	// afterwards.
	UseBlob(digest spec.Digest) error
	// MoveDamaged moves a damaged blob to the directory damaged and returns its new key. If the blob
	// was repaired in the meantime, it is kept, and the key is empty.
	MoveDamaged(digest spec.Digest) (string, error)
}

// BlobBatch is a set of blobs that are stored together. It is safe for concurrent use. OpenBlob and StatBlob find only
// the blobs that it will write.
type BlobBatch interface {
	Blobs
	// Put adds a blob.
	Put(digest spec.Digest, content []byte) error
	// NewBlob starts a blob of any size.
	NewBlob() (*BlobWriter, error)
	// Commit stores the added blobs durably. Before it, none of them is visible.
	Commit(ctx context.Context) error
	// Close discards everything that was not committed.
	Close() error
}

// BlobInfo is a blob's metadata.
type BlobInfo struct {
	Size int64
	// Used is the time of the last put or use.
	Used time.Time
}

const (
	blobDir = "blobs/sha256"
	// digestPrefix is how many digits of a digest name a directory.
	digestPrefix = 2
)

// BlobKey returns the key of a blob with a valid digest.
func BlobKey(digest spec.Digest) string {
	return blobDir + "/" + string(digest[:digestPrefix]+"/"+digest[digestPrefix:])
}

// BlobOf returns the digest of the blob whose key this is.
func BlobOf(key string) (spec.Digest, bool) {
	digest := spec.Digest(path.Base(path.Dir(key)) + path.Base(key))
	return digest, digest.Valid() && BlobKey(digest) == key
}
