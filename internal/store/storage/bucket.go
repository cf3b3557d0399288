package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// DefaultCacheBytes is the default of [BucketOptions.CacheBytes].
const DefaultCacheBytes int64 = 20_000_000_000

// BucketOptions configures [OpenBucket].
type BucketOptions struct {
	// Address is that of the bucket, like s3://bucket/prefix.
	Address string
	// Cache has copies of blobs on this host. Its files are verified when they are stored, and by whoever reads them.
	Cache *Directory
	// CacheBytes is the size of the cache from which on those are removed that were not used for the longest time; zero: 20 GB.
	CacheBytes int64
	// Rows say where each blob is. They are the truth: what has no row does not exist.
	Rows *state.DB
	// KindOf returns the kind of a blob with these first bytes.
	KindOf func(head []byte) state.RootKind
}

// Bucket is content in a bucket, with a cache on this host. Any bucket is enough that can put, get, list and delete.
//
// Blobs are in objects with random names, which are written once: many small blobs one after the other, or a large one. An
// object is written before its rows. So a late or repeated request can hit nothing else, and none needs a condition. Nothing
// is packed again: an object stays while it has one blob with a row.
type Bucket struct {
	options BucketOptions
	cache   *Directory
	rows    *state.DB
	remote  *remote

	mu sync.Mutex
	// objects is the prefix of the objects' names, when the bucket is known to be that of the database.
	objects string
	// trimming is held while this process removes files from the cache, to which it has added so many bytes since.
	trimming sync.Mutex
	added    atomic.Int64
}

var _ Content = (*Bucket)(nil)

// OpenBucket opens the content in a bucket. It sends no request.
func OpenBucket(ctx context.Context, o BucketOptions) (*Bucket, error) {
	if o.CacheBytes <= 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	r, err := openRemote(ctx, o.Address)
	if err != nil {
		return nil, err
	}
	b := &Bucket{options: o, cache: o.Cache, rows: o.Rows, remote: r}
	b.added.Store(rand.Int64N(b.trimEvery())) //nolint:gosec // so that many short processes trim it, too
	return b, nil
}

// Close releases the connections.
func (b *Bucket) Close() error { return b.remote.bucket.Close() }

// prefix returns the prefix of the objects of this installation. An object there says whose they are: without it, the objects of
// the rows cannot be in this bucket. No row may be removed because of a wrong address, and no object of another installation.
func (b *Bucket) prefix(ctx context.Context, again bool) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.objects != "" && !again {
		return b.objects, nil
	}
	id, hasBlobs, err := b.rows.Installation(ctx)
	if err != nil {
		return "", err
	}
	name := "content/" + id + "/installation"
	_, err = b.readObject(ctx, name)
	switch {
	case errors.Is(err, ErrNotFound) && hasBlobs:
		err = fmt.Errorf("%w: it has no %s, but the database has blobs in a bucket: is this another bucket or prefix?",
			ErrUnavailable, name)
	case errors.Is(err, ErrNotFound):
		err = b.putObject(ctx, name, []byte(id+"\n"))
	}
	if err != nil {
		return "", err
	}
	b.objects = strings.TrimSuffix(name, "installation")
	return b.objects, nil
}

// readObject reads a small object.
func (b *Bucket) readObject(ctx context.Context, name string) (data []byte, err error) {
	err = b.remote.try(ctx, "get "+name, maxFile, func(ctx context.Context) error {
		body, err := b.remote.bucket.NewReader(ctx, name, nil)
		if err != nil {
			return err
		}
		defer body.Close() //nolint:errcheck // only read
		if body.Size() > maxFile {
			return localError{fmt.Errorf("%s has %d bytes", name, body.Size())}
		}
		data, err = io.ReadAll(body)
		return err
	})
	return data, err
}

func (b *Bucket) putObject(ctx context.Context, name string, data []byte) error {
	return b.remote.put(ctx, name, int64(len(data)), "", func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	})
}

// PutBlob implements [Blobs].
func (b *Bucket) PutBlob(ctx context.Context, digest spec.Digest, data []byte) error {
	if !digest.Valid() {
		return wrongDigest(digest)
	}
	size := int64(len(data))
	err := b.store(ctx, []source{{digest, size, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}})
	if err == nil {
		// It is stored: if this fails, it is downloaded when it is read.
		_, _ = b.receive(ctx, state.Blob{Digest: digest, Size: size}, bytes.NewReader(data))
		b.trimAfter(ctx, size)
	}
	return err
}

// OpenBlob implements [Blobs]. It opens the copy on this host, and downloads it if there is none.
func (b *Bucket) OpenBlob(ctx context.Context, digest spec.Digest) (*os.File, error) {
	const tries = 3
	for range tries {
		f, err := b.cache.OpenBlob(ctx, digest)
		if err == nil {
			b.touch(digest)
		}
		if !errors.Is(err, ErrNotFound) {
			return f, err
		}
		rows, err := b.rows.FindBlobs(ctx, digest)
		if err == nil && len(rows) == 0 {
			err = ErrNotFound
		}
		var damaged []*DamagedError
		if err == nil {
			damaged, err = b.readOrForget(ctx, rows, b.receive)
		}
		if err != nil {
			return nil, err
		}
		if len(damaged) > 0 {
			return nil, damaged[0]
		}
		b.trimAfter(ctx, rows[digest].Size)
	}
	return nil, fmt.Errorf("blob %s was removed from the cache %d times before it was read", digest.Short(), tries)
}

// StatBlobs implements [Blobs].
func (b *Bucket) StatBlobs(ctx context.Context, digests ...spec.Digest) (map[spec.Digest]BlobInfo, error) {
	for _, digest := range digests {
		if !digest.Valid() {
			return nil, wrongDigest(digest)
		}
	}
	rows, err := b.rows.FindBlobs(ctx, digests...)
	found := make(map[spec.Digest]BlobInfo, len(rows))
	for digest, row := range rows {
		found[digest] = infoOf(row)
	}
	return found, err
}

func infoOf(row state.Blob) BlobInfo {
	return BlobInfo{Size: row.Size, Used: row.Used(), Kind: row.Kind, KindKnown: true}
}

// UseBlob implements [Blobs].
func (b *Bucket) UseBlob(ctx context.Context, digest spec.Digest) error {
	if !digest.Valid() {
		return wrongDigest(digest)
	}
	live, _, err := b.rows.UseBlobs(ctx, []spec.Digest{digest})
	if err == nil && !live[digest] {
		err = ErrNotFound
	}
	return err
}

// MoveDamaged implements [Blobs]. What is damaged is the copy on this host: it is removed, and the next reader downloads it.
func (b *Bucket) MoveDamaged(_ context.Context, digest spec.Digest) (string, error) {
	return "", IgnoreMissing(os.Remove(b.cache.blobFile(digest)))
}

// ListBlobs implements [Content].
func (b *Bucket) ListBlobs(ctx context.Context, blob func(digest spec.Digest, info BlobInfo), _ func(key, what string)) error {
	for last := spec.Digest(""); ; {
		rows, err := b.rows.BlobsAfter(ctx, last)
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, row := range rows {
			blob(row.Digest, infoOf(row))
		}
		last = rows[len(rows)-1].Digest
	}
}

// SweepBlobs implements [Content].
func (b *Bucket) SweepBlobs(ctx context.Context, digests []spec.Digest, since time.Time, whole bool) (swept Swept,
	used []spec.Digest, err error,
) {
	removed, used, err := b.rows.SweepBlobs(ctx, digests, since, whole)
	for _, row := range removed {
		swept.Blobs++
		swept.Bytes += row.Size
	}
	return swept, used, err
}

// Now implements [Content].
func (b *Bucket) Now(ctx context.Context) (time.Time, error) { return b.rows.Clock(ctx) }
