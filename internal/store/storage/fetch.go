package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/diskspace"
	"github.com/maestro-hive/maestro/internal/store/state"
)

const (
	// downloads is how many parts of objects are read at a time.
	downloads = 6
	// wasted is how many bytes that nobody asked for are read rather than another request is sent.
	wasted = 1 << 20
	// recent is the time since its last use in which a file is not removed from the cache: what was fetched is about to be opened.
	recent = 10 * time.Minute
)

// damage is a blob whose bytes are not in its object.
type damage struct {
	row     state.Blob
	what    string
	missing bool
}

// DamagedError says that the bucket does not have the bytes of a blob.
type DamagedError struct {
	Digest spec.Digest
	// Object should have the blob. What says what is wrong.
	Object, What string
	// Missing: the object does not exist.
	Missing bool
}

// Error names the object.
func (e *DamagedError) Error() string {
	return "object " + e.Object + " of the bucket " + e.What + "; what is put again is stored in another object"
}

// forget removes the row of a blob whose bytes are not in the bucket, so that it can be put again.
func (b *Bucket) forget(ctx context.Context, d damage) error {
	if _, err := b.prefix(ctx, true); err != nil { // nothing is missing because the address is wrong
		return err
	}
	if err := b.rows.RemoveBlob(ctx, d.row); err != nil {
		return err
	}
	return &DamagedError{d.row.Digest, d.row.Object, d.what, d.missing}
}

// Fetch implements [Blobs].
func (b *Bucket) Fetch(ctx context.Context, digests []spec.Digest) error {
	missing := slices.DeleteFunc(slices.Clone(digests), func(digest spec.Digest) bool {
		return !digest.Valid() || b.touch(digest)
	})
	slices.Sort(missing)
	found, err := b.rows.FindBlobs(ctx, slices.Compact(missing)...)
	if err == nil {
		_, err = b.download(ctx, found) // who opens a damaged one gets the error
	}
	return err
}

// touch marks a file of the cache as used, and reports whether there is one.
func (b *Bucket) touch(digest spec.Digest) bool {
	info, err := os.Lstat(b.cache.blobFile(digest))
	if err != nil {
		return false
	}
	if now := b.cache.now(); now.Sub(info.ModTime()) > recent/2 {
		return os.Chtimes(b.cache.blobFile(digest), now, now) == nil
	}
	return true
}

// span is a part of an object with blobs.
type span struct {
	object     string
	start, end int64
	rows       []state.Blob
}

// spansOf are the parts of objects that have the blobs, with gaps of at most so many bytes.
func spansOf(rows map[spec.Digest]state.Blob, gap int64) (spans []span) {
	for _, row := range slices.SortedFunc(maps.Values(rows), func(a, b state.Blob) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Start, b.Start), cmp.Compare(a.Size, b.Size))
	}) {
		last := len(spans) - 1
		if last < 0 || spans[last].object != row.Object || row.Start > spans[last].end+gap {
			spans = append(spans, span{object: row.Object, start: row.Start})
			last++
		}
		spans[last].end = max(spans[last].end, row.Start+row.Size)
		spans[last].rows = append(spans[last].rows, row)
	}
	return spans
}

// download stores blobs in the cache, and returns those whose bytes are not in the bucket.
func (b *Bucket) download(ctx context.Context, rows map[spec.Digest]state.Blob) (wrong []damage, err error) {
	wrong, err = b.eachSpan(ctx, rows, b.receive)
	size := int64(0)
	for _, row := range rows {
		size += row.Size
	}
	b.trimAfter(ctx, size)
	return wrong, err
}

// eachSpan calls take with the bytes of each blob. It reports whether they are those of the blob.
func (b *Bucket) eachSpan(ctx context.Context, rows map[spec.Digest]state.Blob,
	take func(ctx context.Context, row state.Blob, body io.Reader) (bool, error),
) (wrong []damage, err error) {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(downloads)
	for _, s := range spansOf(rows, wasted) {
		g.Go(func() error {
			bad, err := b.readSpan(ctx, s, take)
			mu.Lock()
			defer mu.Unlock()
			wrong = append(wrong, bad...)
			return err
		})
	}
	return wrong, g.Wait()
}

func (b *Bucket) readSpan(ctx context.Context, s span, take func(context.Context, state.Blob, io.Reader) (bool, error)) (wrong []damage,
	err error,
) {
	if s.start == s.end { // empty blobs need no request
		_, err := take(ctx, s.rows[0], io.LimitReader(nil, 0))
		return nil, err
	}
	err = b.remote.get(ctx, s.object, s.start, s.end-s.start, func(whole int64, body io.Reader) error {
		wrong = nil // of an earlier try
		at := s.start
		for _, row := range s.rows {
			if row.Start+row.Size > whole {
				wrong = append(wrong, damage{row, fmt.Sprintf("has %d bytes; the blob ends after %d", whole, row.Start+row.Size), false})
				continue
			}
			if _, err := io.CopyN(io.Discard, body, row.Start-at); err != nil {
				return err
			}
			part := &io.LimitedReader{R: body, N: row.Size}
			same, err := take(ctx, row, part)
			if err != nil {
				return err
			}
			if at = row.Start + row.Size - part.N; !same {
				wrong = append(wrong, damage{row, fmt.Sprintf("has other bytes than the blob's from %d to %d", row.Start, at), false})
			}
		}
		return nil
	})
	if errors.Is(err, ErrNotFound) {
		wrong = nil
		for _, row := range s.rows {
			wrong = append(wrong, damage{row, "does not exist", true})
		}
		err = nil
	}
	return wrong, err
}

// receive stores a blob in the cache if its bytes are right.
func (b *Bucket) receive(ctx context.Context, row state.Blob, body io.Reader) (same bool, err error) {
	err = b.toCache(ctx, row.Digest, func(f *os.File) (bool, error) {
		n, found, err := Copy(ctx, f, body)
		if err == nil && n < row.Size {
			err = io.ErrUnexpectedEOF // cut: it is read again
		}
		same = found == row.Digest
		return same, err
	})
	return same, err
}

// keep stores a blob in the cache.
func (b *Bucket) keep(ctx context.Context, digest spec.Digest, data []byte) error {
	err := b.toCache(ctx, digest, func(f *os.File) (bool, error) {
		_, err := f.Write(data)
		return true, err
	})
	b.trimAfter(ctx, int64(len(data)))
	return err
}

// toCache makes a file of the cache of what write writes, if write says so. It is not flushed: readers verify it.
func (b *Bucket) toCache(ctx context.Context, digest spec.Digest, write func(*os.File) (bool, error)) error {
	f, err := b.cache.temp()
	if err != nil {
		return localError{err}
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it has another name by then, or is not wanted
	ok, err := write(f)
	if closed := f.Close(); err == nil && closed != nil {
		err = localError{closed}
	}
	if diskspace.IsFull(err) {
		b.trim(ctx, true)
		err = localError{err}
	}
	if err != nil || !ok {
		return err
	}
	if err := b.cache.withSweepLock(unix.LOCK_SH, func() error { return b.cache.cacheFile(f.Name(), digest) }); err != nil {
		return localError{err}
	}
	return nil
}

// cacheFile renames a file to that of a blob. Unlike those of a store without a bucket, it need not survive a power loss.
func (d *Directory) cacheFile(temp string, digest spec.Digest) error {
	err := os.Rename(temp, d.blobFile(digest))
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(d.blobFile(digest)), dirMode); err != nil {
			return err
		}
		err = os.Rename(temp, d.blobFile(digest))
	}
	return err
}

// trimEvery is how many bytes are added to the cache between two looks at its size.
func (b *Bucket) trimEvery() int64 { return max(b.options.CacheBytes/20, 1) }

// trimAfter trims the cache now and then.
func (b *Bucket) trimAfter(ctx context.Context, added int64) {
	if b.added.Add(added) >= b.trimEvery() {
		b.trim(ctx, false)
	}
}

// trim removes files from the cache that were not used for the longest time, until it has nine tenths of its size. On a full
// disk it removes a half of them. Errors are ignored: a later call tries again.
func (b *Bucket) trim(ctx context.Context, full bool) {
	if !b.trimming.TryLock() {
		return
	}
	defer b.trimming.Unlock()
	b.added.Store(0)
	type file struct {
		digest spec.Digest
		BlobInfo
	}
	var files []file
	total := int64(0)
	if err := b.cache.ListBlobs(ctx, func(digest spec.Digest, info BlobInfo) {
		files, total = append(files, file{digest, info}), total+info.Size
	}, func(string, string) {}); err != nil {
		return
	}
	limit := b.options.CacheBytes
	if full {
		limit = min(limit, total/2)
	}
	if total <= limit {
		return
	}
	slices.SortFunc(files, func(a, b file) int { return a.Used.Compare(b.Used) })
	var old []spec.Digest
	for _, f := range files {
		if total <= limit-limit/10 {
			break
		}
		old, total = append(old, f.digest), total-f.Size
	}
	for some := range slices.Chunk(old, listPage) {
		if _, _, err := b.cache.SweepBlobs(ctx, some, b.cache.now().Add(-recent), false); err != nil {
			return
		}
	}
}
