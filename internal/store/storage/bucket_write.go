package storage

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

const (
	// smallBlob is the size up to which blobs share an object, and bundleSize that of such an object, about.
	smallBlob  = 256 << 10
	bundleSize = 8 << 20
	// uploads is how many objects are sent at a time.
	uploads = 4
	// headSize is how many of its first bytes tell the kind of a blob.
	headSize = 64
)

// source is a blob to be stored.
type source struct {
	digest spec.Digest
	size   int64
	open   func() (io.ReadCloser, error)
}

// store stores blobs that have no row, and marks the others as used.
func (b *Bucket) store(ctx context.Context, all []source) error {
	if len(all) == 0 {
		return nil
	}
	prefix, err := b.prefix(ctx, false)
	if err != nil {
		return err
	}
	const tries = 3
	for range tries {
		digests := make([]spec.Digest, len(all))
		for i, s := range all {
			digests[i] = s.digest
		}
		live, now, err := b.rows.UseBlobs(ctx, digests)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(slices.Clone(all), func(s source) bool { return live[s.digest] })
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(uploads)
		for _, some := range bundlesOf(all) {
			g.Go(func() error { return b.upload(gctx, prefix, now, some) })
		}
		if err := g.Wait(); !errors.Is(err, state.ErrLate) {
			return err
		}
	}
	return fmt.Errorf("%w: %d uploads took more than %s each", ErrUnavailable, tries, state.UploadTime)
}

// bundlesOf divides blobs by the objects that they are stored in.
func bundlesOf(all []source) (bundles [][]source) {
	slices.SortFunc(all, func(a, b source) int { return cmp.Compare(a.digest, b.digest) })
	var bundle []source
	size := int64(0)
	for _, s := range all {
		if s.size > smallBlob {
			bundles = append(bundles, []source{s})
			continue
		}
		if bundle, size = append(bundle, s), size+s.size; size >= bundleSize {
			bundles, bundle, size = append(bundles, bundle), nil, 0
		}
	}
	if len(bundle) > 0 {
		bundles = append(bundles, bundle)
	}
	return bundles
}

// upload stores one object, and then the rows of its blobs.
func (b *Bucket) upload(ctx context.Context, prefix string, now time.Time, some []source) (err error) {
	name := prefix + strconv.FormatInt(now.UnixMicro(), 10) + "-" + rand.Text()
	rows := make([]state.Blob, len(some))
	if len(some) == 1 && some[0].size > smallBlob {
		head, err := some[0].read(headSize)
		if err != nil {
			return err
		}
		rows[0] = state.Blob{Digest: some[0].digest, Size: some[0].size, Object: name, Kind: b.options.KindOf(head)}
		err = b.remote.put(ctx, name, some[0].size, some[0].digest, some[0].open)
		if err != nil {
			return err
		}
	} else {
		var bundle []byte
		for i, s := range some {
			data, err := s.read(smallBlob)
			if err == nil && spec.DigestOf(data) != s.digest {
				err = fmt.Errorf("the file of blob %s was changed before it was stored", s.digest.Short())
			}
			if err != nil {
				return err
			}
			rows[i] = state.Blob{
				Digest: s.digest, Size: s.size, Object: name, Start: int64(len(bundle)),
				Kind: b.options.KindOf(data[:min(headSize, len(data))]),
			}
			bundle = append(bundle, data...)
		}
		if err := b.putObject(ctx, name, bundle); err != nil {
			return err
		}
	}
	return b.rows.AddBlobs(ctx, now, rows)
}

// read returns the first bytes of a blob.
func (s source) read(most int64) ([]byte, error) {
	f, err := s.open()
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	return io.ReadAll(io.LimitReader(f, most))
}

// bucketBatch is a batch of the cache whose blobs are stored in the bucket. It stores what others have stored, too, until it
// is committed: the cache is not asked what exists.
type bucketBatch struct {
	*batch
	bucket *Bucket
}

// NewBatch implements [Blobs].
func (b *Bucket) NewBatch() (BlobBatch, error) {
	local, err := b.cache.NewBatch()
	if err != nil {
		return nil, err
	}
	return &bucketBatch{local.(*batch), b}, nil //nolint:forcetypeassert // it is one
}

// Put implements [BlobBatch].
func (b *bucketBatch) Put(_ context.Context, digest spec.Digest, content []byte) error {
	has, err := b.file(digest)
	if err != nil || has != "" {
		return err
	}
	return b.write(digest, content)
}

// Commit implements [BlobBatch].
func (b *bucketBatch) Commit(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]source, 0, len(b.put))
	size := int64(0)
	for digest, file := range b.put {
		info, err := os.Lstat(file)
		if err != nil {
			return err
		}
		size += info.Size()
		all = append(all, source{digest, info.Size(), func() (io.ReadCloser, error) { return os.Open(file) }})
	}
	if err := b.bucket.store(ctx, all); err != nil {
		return err
	}
	_ = b.withSweepLock(unix.LOCK_SH, func() error { // what fails is downloaded when it is read
		for digest, file := range b.put {
			_ = b.cacheFile(file, digest)
		}
		return nil
	})
	b.bucket.trimAfter(ctx, size)
	return nil
}
