package storage

import (
	"context"
	"os"
	"path"
	"time"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// Blobs stores immutable content under its SHA-256 in lower-case hex. An invalid digest is an
// ErrKey; a missing blob is an ErrNotFound.
type Blobs interface {
	// PutBlob stores content under its digest, durably. A blob that exists is only marked as used; if it
	// is damaged, it is replaced.
	PutBlob(ctx context.Context, digest spec.Digest, data []byte) error
	// NewBatch starts a batch of blobs that are stored together.
	NewBatch() (BlobBatch, error)
	// OpenBlob opens a blob for reading. The caller has to verify the digest.
	OpenBlob(ctx context.Context, digest spec.Digest) (*os.File, error)
	// StatBlobs returns the metadata of those of the blobs that exist.
	StatBlobs(ctx context.Context, digests ...spec.Digest) (map[spec.Digest]BlobInfo, error)
	// Fetch makes the next OpenBlob of many blobs fast. It ignores those that do not exist.
	Fetch(ctx context.Context, digests []spec.Digest) error
	// UseBlob marks a blob as used now, so that no sweep removes it afterwards.
	UseBlob(ctx context.Context, digest spec.Digest) error
	// MoveDamaged moves a damaged blob to the directory damaged and returns its new key. If the blob
	// was repaired in the meantime, it is kept, and the key is empty.
	MoveDamaged(ctx context.Context, digest spec.Digest) (string, error)
}

// Content is all blobs of a store.
type Content interface {
	Blobs
	// ListBlobs calls blob for each blob, at least once. It calls stray with the key of anything
	// else that is stored among the blobs, and with what is wrong with it.
	ListBlobs(ctx context.Context, blob func(digest spec.Digest, info BlobInfo), stray func(key, what string)) error
	// SweepBlobs removes those of the blobs that were not used since a time. With whole, it removes none of them if one was used:
	// used has these then.
	SweepBlobs(ctx context.Context, digests []spec.Digest, since time.Time, whole bool) (swept Swept, used []spec.Digest, err error)
	// Now is the time of the clock that [BlobInfo.Used] is from.
	Now(ctx context.Context) (time.Time, error)
}

// Swept is what a sweep has removed.
type Swept struct {
	Blobs int
	Bytes int64
}

// BlobBatch is a set of blobs that are stored together. It is safe for concurrent use.
type BlobBatch interface {
	// Put adds a blob.
	Put(ctx context.Context, digest spec.Digest, content []byte) error
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
	// Kind says what the blob refers to, if KindKnown; else its first bytes do.
	Kind      state.RootKind
	KindKnown bool
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
