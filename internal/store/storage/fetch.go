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
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/diskspace"
	"github.com/maestro-hive/maestro/internal/platform/retryafter"
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

// DamagedError says that the bucket does not have the bytes of a blob.
type DamagedError struct {
	state.Blob
	// What is wrong with the object.
	What string
	// Missing: the object does not exist.
	Missing bool
}

// Error names the object.
func (e *DamagedError) Error() string {
	return "object " + e.Object + " of the bucket " + e.What + "; what is put again is stored in another object"
}

// Fetch implements [Blobs].
func (b *Bucket) Fetch(ctx context.Context, digests []spec.Digest) error {
	missing := slices.DeleteFunc(slices.Clone(digests), func(digest spec.Digest) bool {
		return !digest.Valid() || b.touch(digest)
	})
	slices.Sort(missing)
	found, err := b.rows.FindBlobs(ctx, slices.Compact(missing)...)
	if err != nil {
		return err
	}
	size := int64(0)
	for _, row := range found {
		size += row.Size
	}
	_, err = b.eachSpan(ctx, found, b.receive) // who opens a damaged one gets the error
	b.trimAfter(ctx, size)
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

// spansOf are the parts of objects that have the blobs, with small gaps.
func spansOf(rows map[spec.Digest]state.Blob) (spans []span) {
	for _, row := range slices.SortedFunc(maps.Values(rows), func(a, b state.Blob) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Start, b.Start), cmp.Compare(a.Size, b.Size))
	}) {
		last := len(spans) - 1
		if last < 0 || spans[last].object != row.Object || row.Start > spans[last].end+wasted {
			spans = append(spans, span{object: row.Object, start: row.Start})
			last++
		}
		spans[last].end = max(spans[last].end, row.Start+row.Size)
		spans[last].rows = append(spans[last].rows, row)
	}
	return spans
}

// taker is called with the bytes of a blob, and reports whether they are right. It may be called again.
type taker func(ctx context.Context, row state.Blob, body io.Reader) (bool, error)

// readOrForget calls take with the bytes of each blob. A blob whose bytes are not in the bucket loses its row, so that it can be
// put again. Nothing is called damaged because of one answer.
func (b *Bucket) readOrForget(ctx context.Context, rows map[spec.Digest]state.Blob, take taker) (damaged []*DamagedError,
	err error,
) {
	const tries = 3
	for n := range tries {
		if !retryafter.Wait(ctx, time.Duration(n)*time.Second) {
			return nil, ctx.Err()
		}
		if damaged, err = b.eachSpan(ctx, rows, take); err != nil || len(damaged) == 0 {
			return nil, err
		}
		rows = map[spec.Digest]state.Blob{}
		for _, d := range damaged {
			rows[d.Digest] = d.Blob
		}
	}
	if _, err := b.prefix(ctx, true); err != nil { // nothing is missing because the address is wrong
		return nil, err
	}
	for _, d := range damaged {
		if err := b.rows.RemoveBlob(ctx, d.Blob); err != nil {
			return nil, err
		}
	}
	return damaged, nil
}

// eachSpan calls take with the bytes of each blob, several at a time.
func (b *Bucket) eachSpan(ctx context.Context, rows map[spec.Digest]state.Blob, take taker) (damaged []*DamagedError, err error) {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(downloads)
	for _, s := range spansOf(rows) {
		g.Go(func() error {
			found, err := b.readSpan(ctx, s, take)
			mu.Lock()
			defer mu.Unlock()
			damaged = append(damaged, found...)
			return err
		})
	}
	return damaged, g.Wait()
}

func (b *Bucket) readSpan(ctx context.Context, s span, take taker) (damaged []*DamagedError, err error) {
	if s.start == s.end { // an empty blob needs no request
		_, err := take(ctx, s.rows[0], strings.NewReader(""))
		return nil, err
	}
	err = b.remote.get(ctx, s.object, s.start, s.end-s.start, func(whole int64, body io.Reader) error {
		damaged = nil // of an earlier try
		at := s.start
		for _, row := range s.rows {
			end := row.Start + row.Size
			if end > whole {
				damaged = append(damaged, &DamagedError{row, fmt.Sprintf("has %d bytes; the blob ends after %d", whole, end), false})
				continue
			}
			if _, err := io.CopyN(io.Discard, body, row.Start-at); err != nil {
				return err
			}
			right, err := take(ctx, row, io.LimitReader(body, row.Size))
			if err != nil {
				return err
			}
			if at = end; !right {
				what := fmt.Sprintf("has other bytes than the blob's from %d to %d", row.Start, end)
				damaged = append(damaged, &DamagedError{row, what, false})
			}
		}
		return nil
	})
	if errors.Is(err, ErrNotFound) {
		for _, row := range s.rows {
			damaged = append(damaged, &DamagedError{row, "does not exist", true})
		}
		err = nil
	}
	return damaged, err
}

// receive is the [taker] that stores a blob in the cache. The file is not flushed: its readers verify it.
func (b *Bucket) receive(ctx context.Context, row state.Blob, body io.Reader) (right bool, err error) {
	f, err := b.cache.temp()
	if err != nil {
		return false, localError{err}
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it has another name by then, or is not wanted
	right, err = copied(ctx, f, row, body)
	if closed := f.Close(); err == nil && closed != nil {
		err = closed
	}
	if diskspace.IsFull(err) {
		b.trim(ctx, true)
		return false, localError{err}
	}
	if err != nil || !right {
		return right, err
	}
	if err := b.cache.withSweepLock(unix.LOCK_SH, func() error { return b.cache.cacheFile(f.Name(), row.Digest) }); err != nil {
		return false, localError{err}
	}
	return true, nil
}

// copied copies a blob, and reports whether its bytes are right. A part that was cut is an error: it is read again.
func copied(ctx context.Context, to io.Writer, row state.Blob, body io.Reader) (right bool, err error) {
	n, found, err := Copy(ctx, to, body)
	if err == nil && n < row.Size {
		err = io.ErrUnexpectedEOF
	}
	return found == row.Digest, err
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
