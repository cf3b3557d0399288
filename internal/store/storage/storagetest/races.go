package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// Race lets hosts put, use and read a few blobs while others sweep them, and time passes in leaps.
func Race(t *testing.T, host Host, clock *Clock) {
	t.Helper()
	const workers, blobs, steps = 4, 12, 60
	contents, digests := make([][]byte, blobs), make([]spec.Digest, blobs)
	for i := range contents {
		contents[i] = []byte(fmt.Sprint("content of ", i, " ", rand.Uint64()))
		digests[i] = storage.DigestOf(contents[i])
	}
	ctx := t.Context()
	var g, sweeps errgroup.Group
	for w := range workers {
		c := host()
		g.Go(func() error {
			for range steps {
				i := rand.IntN(blobs)
				before := clock.Now()
				err := c.UseBlob(ctx, digests[i])
				if errors.Is(err, storage.ErrNotFound) {
					if i%2 == 0 {
						_, err = Put(ctx, c, contents[i], contents[(i+w)%blobs])
					} else {
						err = c.PutBlob(ctx, digests[i], contents[i])
					}
				}
				if errors.Is(err, storage.ErrUnavailable) { // an upload took a day
					continue
				}
				if err != nil {
					return err
				}
				found, err := c.StatBlobs(ctx, digests[i])
				if err != nil {
					return err
				}
				read, err := Read(ctx, c, digests[i])
				if clock.Now().Sub(before) > kept-coarse {
					continue // it may have been removed in the meantime
				}
				if err != nil || len(found) == 0 || string(read) != string(contents[i]) {
					return fmt.Errorf("blob %d was lost: found %d, read %q: %w", i, len(found), read, err)
				}
			}
			return nil
		})
	}
	done := make(chan struct{})
	removed := 0
	sweeps.Go(func() error {
		c := host()
		for {
			select {
			case <-done:
				return nil
			default:
			}
			clock.Pass(time.Duration(rand.Int64N(int64(30 * time.Hour))))
			now, err := c.Now(ctx)
			if err != nil {
				return err
			}
			swept, _, err := c.SweepBlobs(ctx, digests, now.Add(-kept), rand.IntN(3) == 0)
			if removed += swept.Blobs; err != nil {
				return err
			}
			if s, ok := c.(sweeper); ok {
				if _, err := s.SweepObjects(ctx); err != nil {
					return err
				}
			}
		}
	})
	err := g.Wait()
	close(done)
	require.NoError(t, sweeps.Wait())
	require.NoError(t, err)
	require.Positive(t, removed, "the sweeps removed something")
}
