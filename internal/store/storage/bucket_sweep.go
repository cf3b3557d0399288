package storage

import (
	"context"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"gocloud.dev/blob"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// objectGrace is the age from which on an object without a blob is removed: twice the time in which its rows can be added.
const objectGrace = 2 * state.UploadTime

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

// VerifyBlobs reads blobs from the bucket itself, and calls report with the size of each, or with what is wrong. A blob whose
// bytes are not there loses its row, so that it can be put again. An error of report, or of the bucket, ends it.
func (b *Bucket) VerifyBlobs(ctx context.Context, digests []spec.Digest, report func(spec.Digest, int64, error) error) error {
	for some := range slices.Chunk(digests, listPage) {
		rows, err := b.rows.FindBlobs(ctx, some...)
		if err != nil {
			return err
		}
		damaged, err := b.readOrForget(ctx, rows, func(ctx context.Context, row state.Blob, body io.Reader) (bool, error) {
			return copied(ctx, io.Discard, row, body)
		})
		if err != nil {
			return err
		}
		wrong := map[spec.Digest]error{}
		for _, d := range damaged {
			wrong[d.Digest] = d
		}
		for _, digest := range some {
			row, ok := rows[digest]
			if err := wrong[digest]; err != nil {
				row.Size = 0
			} else if !ok {
				wrong[digest] = ErrNotFound
			}
			if err := report(digest, row.Size, wrong[digest]); err != nil {
				return err
			}
		}
	}
	return nil
}
