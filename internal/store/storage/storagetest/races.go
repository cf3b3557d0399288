package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// sweeper is content that has objects beside its blobs.
type sweeper interface {
	SweepObjects(ctx context.Context) (storage.Swept, error)
}

// The ages of a race: what was put or used less than kept ago is there, and a mark may be as old as coarse.
const (
	kept   = 24 * time.Hour
	coarse = time.Hour
)

// race is content that is put, used, read and swept at the same time.
type race struct {
	host     Host
	clock    *Clock
	contents [][]byte
	digests  []spec.Digest
	// removed is how many blobs the sweeps have removed.
	removed atomic.Int64
}

// Race lets hosts put, use and read a few blobs while another one sweeps them, and time passes in leaps.
func Race(t *testing.T, host Host, clock *Clock) {
	t.Helper()
	const workers, blobs, steps, enough = 4, 12, 60, 10
	r := &race{host: host, clock: clock}
	for i := range blobs {
		content := []byte(fmt.Sprint("content of ", i, " ", rand.Uint64())) //nolint:gosec // any will do
		r.contents, r.digests = append(r.contents, content), append(r.digests, spec.DigestOf(content))
	}
	var users, sweep errgroup.Group
	for range workers {
		c := host()
		users.Go(func() error {
			for n := 0; n < steps || r.removed.Load() < enough; n++ {
				if err := r.use(t.Context(), c, rand.IntN(blobs)); err != nil { //nolint:gosec // any will do
					return err
				}
			}
			return nil
		})
	}
	done := make(chan struct{})
	sweep.Go(func() error { return r.sweep(t.Context(), done) })
	err := users.Wait()
	close(done)
	require.NoError(t, sweep.Wait())
	require.NoError(t, err)
}

// use uses a blob or puts it, and reads it. It has to be there, unless so much time has passed.
func (r *race) use(ctx context.Context, c storage.Content, i int) error {
	before := r.clock.Now()
	err := c.UseBlob(ctx, r.digests[i])
	if errors.Is(err, storage.ErrNotFound) {
		if i%2 == 0 {
			_, err = Put(ctx, c, r.contents[i], r.contents[(i+1)%len(r.contents)])
		} else {
			err = c.PutBlob(ctx, r.digests[i], r.contents[i])
		}
	}
	if errors.Is(err, storage.ErrUnavailable) { // an upload took a day
		return nil
	}
	if err != nil {
		return err
	}
	found, err := c.StatBlobs(ctx, r.digests[i])
	if err != nil {
		return err
	}
	read, err := Read(ctx, c, r.digests[i])
	if r.clock.Now().Sub(before) > kept-coarse {
		return nil // it may have been removed in the meantime
	}
	if err != nil || len(found) == 0 || string(read) != string(r.contents[i]) {
		return fmt.Errorf("blob %d was lost: found %d, read %q: %w", i, len(found), read, err)
	}
	return nil
}

// sweep sweeps until the others are done.
func (r *race) sweep(ctx context.Context, done <-chan struct{}) error {
	for c := r.host(); ; {
		select {
		case <-done:
			return nil
		default:
		}
		r.clock.Pass(time.Duration(rand.Int64N(int64(30 * time.Hour)))) //nolint:gosec // any will do
		now, err := c.Now(ctx)
		if err != nil {
			return err
		}
		swept, _, err := c.SweepBlobs(ctx, r.digests, now.Add(-kept), rand.IntN(3) == 0) //nolint:gosec // any will do
		if r.removed.Add(int64(swept.Blobs)); err != nil {
			return err
		}
		if s, ok := c.(sweeper); ok {
			if _, err := s.SweepObjects(ctx); err != nil {
				return err
			}
		}
	}
}
