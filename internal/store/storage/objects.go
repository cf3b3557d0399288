package storage

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gocloud.dev/blob"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// objectGrace is the age from which on an object without a blob is removed: twice the time in which its rows can be added.
const objectGrace = 2 * state.MaxUpload

// SweepObjects removes objects that no row names: their uploads were not finished, or all their blobs were removed. Their age is
// that in their names, by the clock of the database, which also refuses rows for an object that is too old. So neither the
// clock of this host nor that of the bucket matters, and an upload that wakes up after a day cannot name a removed object.
func (b *Bucket) SweepObjects(ctx context.Context) (swept Swept, err error) {
	prefix, err := b.prefix(ctx, true)
	if err != nil {
		return swept, err
	}
	now, err := b.rows.Clock(ctx)
	if err != nil {
		return swept, err
	}
	err = b.remote.list(ctx, prefix, func(page []*blob.ListObject) error {
		sizes := map[string]int64{}
		var old []string
		for _, o := range page {
			if began, ok := begunAt(o.Key); ok && now.Sub(began) > objectGrace {
				old, sizes[o.Key] = append(old, o.Key), o.Size
			}
		}
		unused, err := b.rows.UnusedObjects(ctx, old)
		if err != nil {
			return err
		}
		for _, name := range unused {
			if err := b.remote.delete(ctx, name); err != nil {
				return err
			}
			swept.Blobs++
			swept.Bytes += sizes[name]
		}
		return nil
	})
	return swept, err
}

// begunAt returns the time in the name of an object.
func begunAt(name string) (time.Time, bool) {
	micros, _, ok := strings.Cut(path.Base(name), "-")
	at, err := strconv.ParseInt(micros, 10, 64)
	return time.UnixMicro(at), ok && err == nil
}

// VerifyBlobs reads blobs from the bucket itself, and calls report with the size of each and with what is wrong. A blob whose
// bytes are not there loses its row, so that it can be put again. An error of report, or of the bucket, ends it.
func (b *Bucket) VerifyBlobs(ctx context.Context, digests []spec.Digest, report func(spec.Digest, int64, error) error) error {
	for some := range slices.Chunk(digests, listPage) {
		rows, err := b.rows.FindBlobs(ctx, some...)
		if err != nil {
			return err
		}
		for _, digest := range some {
			if _, ok := rows[digest]; !ok {
				if err := report(digest, 0, ErrNotFound); err != nil {
					return err
				}
			}
		}
		if err := b.verifyRows(ctx, rows, report); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bucket) verifyRows(ctx context.Context, rows map[spec.Digest]state.Blob, report func(spec.Digest, int64, error) error) error {
	var wrong []damage
	const tries = 3 // nothing is called damaged because of one answer
	left := rows
	for n := range tries {
		if err := pause(ctx, time.Duration(n)*time.Second); err != nil {
			return err
		}
		var mu sync.Mutex
		right := map[spec.Digest]bool{}
		var err error
		wrong, err = b.eachSpan(ctx, left, func(ctx context.Context, row state.Blob, body io.Reader) (bool, error) {
			n, found, err := Copy(ctx, io.Discard, body)
			if err == nil && n < row.Size {
				err = io.ErrUnexpectedEOF
			}
			mu.Lock()
			defer mu.Unlock()
			right[row.Digest] = found == row.Digest
			return found == row.Digest, err
		})
		if err != nil {
			return err
		}
		for digest, row := range left {
			if right[digest] {
				if err := report(digest, row.Size, nil); err != nil {
					return err
				}
			}
		}
		if left = map[spec.Digest]state.Blob{}; len(wrong) == 0 {
			return nil
		}
		for _, d := range wrong {
			left[d.row.Digest] = d.row
		}
	}
	for _, d := range wrong {
		err := b.forget(ctx, d)
		if _, damaged := errors.AsType[*DamagedError](err); !damaged {
			return err
		}
		if err := report(d.row.Digest, 0, err); err != nil {
			return err
		}
	}
	return nil
}
