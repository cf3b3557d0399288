package state

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

const (
	// blobsAtOnce is how many blobs one statement is about.
	blobsAtOnce = 1000
	// useEvery is how old the time of a blob's last use may be: marks within it are not written.
	useEvery = time.Hour
	// UploadTime is the time from the begin of an object's upload in which its rows can be added. Afterwards it may be removed.
	UploadTime = 12 * time.Hour
)

// ErrLate means that an object's upload has taken too long. Its blobs are put again, in another object.
var ErrLate = errors.New("the upload has taken too long; it is repeated")

// Blob is the row of a blob in a bucket.
type Blob struct {
	Digest spec.Digest
	Size   int64
	// Object has the blob from Start on.
	Object string
	Start  int64
	Kind   RootKind
	UsedAt int64
}

// Used is when the blob was last put or used.
func (b Blob) Used() time.Time { return timeOf(b.UsedAt) }

// eachChunk calls do with some of the texts at a time as arguments after others, and with the list of their places.
func eachChunk[S ~string](texts []S, do func(places string, args []any) error, others ...any) error {
	for some := range slices.Chunk(texts, blobsAtOnce) {
		args := slices.Clone(others)
		for _, text := range some {
			args = append(args, string(text))
		}
		if err := do(placesOf(len(others), len(args)), args); err != nil {
			return err
		}
	}
	return nil
}

// among returns those of some texts that a query finds. What follows the query is the list of their places.
func among[S ~string](t *Tx, query string, texts []S, others ...any) (map[S]bool, error) {
	found := make(map[S]bool, len(texts))
	return found, eachChunk(texts, func(places string, args []any) error {
		some, err := t.texts(query+places, args...)
		for _, text := range some {
			found[S(text)] = true
		}
		return err
	}, others...)
}

// placesOf is a list like "($3, $4)" of the arguments after some.
func placesOf(after, last int) string {
	places := make([]string, 0, last-after)
	for i := after + 1; i <= last; i++ {
		places = append(places, "$"+strconv.Itoa(i))
	}
	return "(" + strings.Join(places, ", ") + ")"
}

// FindBlobs returns the rows of those of the blobs that exist. For none it asks nothing.
func (d *DB) FindBlobs(ctx context.Context, digests ...spec.Digest) (map[spec.Digest]Blob, error) {
	found := make(map[spec.Digest]Blob, len(digests))
	return found, eachChunk(digests, func(places string, args []any) error {
		rows, err := list[Blob](ctx, d, "blobs", "where digest in "+places, args...)
		for _, b := range rows {
			found[b.Digest] = b
		}
		return err
	})
}

// BlobsAfter lists blobs in the order of their digests, those after one.
func (d *DB) BlobsAfter(ctx context.Context, last spec.Digest) ([]Blob, error) {
	return list[Blob](ctx, d, "blobs", "where digest > $1 order by digest limit $2", string(last), 10*blobsAtOnce)
}

// UseBlobs marks those of the blobs that exist as used now, and returns them: no sweep removes them for a day.
func (d *DB) UseBlobs(ctx context.Context, digests []spec.Digest) (live map[spec.Digest]bool, now time.Time, err error) {
	digests = slices.Sorted(slices.Values(digests))
	err = d.writeAt(ctx, func(t *Tx, at int64) (err error) {
		now = timeOf(at)
		if err := eachChunk(digests, func(places string, args []any) error {
			_, err := t.exec("update blobs set used_at = $1 where used_at < $2 and digest in "+places, args...)
			return err
		}, at, at-useEvery.Microseconds()); err != nil {
			return err
		}
		live, err = among(t, "select digest from blobs where digest in ", digests)
		return err
	})
	return live, now, err
}

// AddBlobs adds the rows of the blobs of an object whose upload began at a time of the database. A blob that exists stays as it
// is, and is marked as used. The error is [ErrLate] if the object may have been removed as one that nobody uses.
func (d *DB) AddBlobs(ctx context.Context, began time.Time, blobs []Blob) error {
	blobs = slices.SortedFunc(slices.Values(blobs), func(a, b Blob) int { return cmp.Compare(a.Digest, b.Digest) })
	return d.writeAt(ctx, func(t *Tx, now int64) error {
		if now-began.UnixMicro() > UploadTime.Microseconds() {
			return ErrLate
		}
		for some := range slices.Chunk(blobs, blobsAtOnce) {
			var rows []string
			var args []any
			for _, b := range some {
				b.UsedAt = now
				before := len(args)
				args = append(args, columnsOf(&b).values()...)
				rows = append(rows, placesOf(before, len(args)))
			}
			if _, err := t.exec("insert into blobs ("+columnsOf(&Blob{}).names()+") values "+strings.Join(rows, ", ")+
				" on conflict (digest) do update set used_at = excluded.used_at", args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// SweepBlobs removes the rows of those of the blobs that were not used since a time, and returns them. With whole, it removes
// none if one was used: used has these then. The condition is that of the statement: a use that commits first is seen, and one
// that comes later finds no row.
func (d *DB) SweepBlobs(ctx context.Context, digests []spec.Digest, since time.Time, whole bool) (removed []Blob,
	used []spec.Digest, err error,
) {
	err = d.Write(ctx, func(t *Tx) error {
		if err := t.lock("blobs"); err != nil {
			return err
		}
		young, err := among(t, "select digest from blobs where used_at >= $1 and digest in ", digests, since.UnixMicro())
		removed, used = nil, slices.Sorted(maps.Keys(young))
		if err != nil || whole && len(used) > 0 {
			return err
		}
		return eachChunk(digests, func(places string, args []any) error {
			rows, err := query[Blob](t, "delete from blobs where used_at < $1 and digest in "+places+" returning "+
				columnsOf(&Blob{}).names(), args...)
			removed = append(removed, rows...)
			return err
		}, since.UnixMicro())
	})
	return removed, used, err
}

// RemoveBlob removes the row of a blob whose object is damaged, unless the blob is in another object by now.
func (d *DB) RemoveBlob(ctx context.Context, b Blob) error {
	return d.exec(ctx, "delete from blobs where digest = $1 and object = $2 and start = $3", string(b.Digest), b.Object, b.Start)
}

// UnusedObjects returns those of the objects that have no blob. It waits for transactions that add some: an object whose upload
// began longer ago than [UploadTime] stays unused.
func (d *DB) UnusedObjects(ctx context.Context, objects []string) (unused []string, err error) {
	err = d.Write(ctx, func(t *Tx) error {
		if err := t.lock("blobs"); err != nil {
			return err
		}
		used, err := among(t, "select distinct object from blobs where object in ", objects)
		unused = slices.DeleteFunc(slices.Clone(objects), func(object string) bool { return used[object] })
		return err
	})
	return unused, err
}

// Clock is the database's time.
func (d *DB) Clock(ctx context.Context) (now time.Time, err error) {
	err = d.readAt(ctx, func(_ *Tx, at int64) error {
		now = timeOf(at)
		return nil
	})
	return now, err
}

// Name is the id of the installation in the names of task queues.
func (d *DB) Name(ctx context.Context) (name string, err error) {
	err = d.Read(ctx, func(t *Tx) error { return t.row(`select id from installation`).Scan(&name) })
	return strings.ToLower(name[:min(len(name), 8)]), err
}

// ClaimContent says where the blobs are that rows name, unless it was said before. It returns where they are.
func (d *DB) ClaimContent(ctx context.Context, where string) (known string, err error) {
	err = d.Write(ctx, func(t *Tx) error {
		if _, err := t.exec(`update installation set content = $1 where content = ''`, where); err != nil {
			return err
		}
		return t.row(`select content from installation`).Scan(&known)
	})
	return known, err
}

// Installation is the id of the installation, and whether it has blobs in a bucket.
func (d *DB) Installation(ctx context.Context) (id string, hasBlobs bool, err error) {
	err = d.Read(ctx, func(t *Tx) error {
		return t.row("select id, exists (select 1 from blobs) from installation").Scan(&id, &hasBlobs)
	})
	return id, hasBlobs, err
}
