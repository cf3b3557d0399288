//go:build system

package state_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/testkit/postgrestest"
)

// TestUsesAndSweepsOfBlobsExcludeEachOtherOnPostgreSQL: of a use and a sweep at the same time, one sees the other. What was found
// by a use, or added, is there afterwards.
func TestUsesAndSweepsOfBlobsExcludeEachOtherOnPostgreSQL(t *testing.T) {
	t.Parallel()
	address := postgrestest.Start(t).NewDatabase()
	db := openPostgres(t, address)
	raw, err := sql.Open("pgx", address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, raw.Close()) })
	var all []spec.Digest
	for i := range 40 {
		all = append(all, spec.Digest(fmt.Sprintf("%064x", i)))
	}
	var used, removed atomic.Int64
	for range 40 {
		add(t, db, all...)
		_, err := raw.ExecContext(t.Context(), "update blobs set used_at = used_at - 172800000000")
		require.NoError(t, err)
		now, err := db.Clock(t.Context())
		require.NoError(t, err)
		var g errgroup.Group
		live := make([]map[spec.Digest]bool, 3)
		for i := range live {
			some := []spec.Digest{all[rand.IntN(30)], all[rand.IntN(40)]}
			g.Go(func() (err error) {
				live[i], _, err = db.UseBlobs(t.Context(), some)
				return err
			})
		}
		var half []spec.Digest
		g.Go(func() error {
			gone, _, err := db.SweepBlobs(t.Context(), all[30:], now.Add(-24*time.Hour), false)
			removed.Add(int64(len(gone)))
			return err
		})
		g.Go(func() error {
			gone, young, err := db.SweepBlobs(t.Context(), all[:30], now.Add(-24*time.Hour), true)
			if removed.Add(int64(len(gone))); len(young) == 0 {
				half = all[:30]
			}
			return err
		})
		require.NoError(t, g.Wait())
		left, err := db.FindBlobs(t.Context(), all...)
		require.NoError(t, err)
		for _, digest := range half {
			require.NotContains(t, left, digest, "as a whole, all are removed or none")
		}
		for _, some := range live {
			for digest := range some {
				used.Add(1)
				require.Contains(t, left, digest)
			}
		}
	}
	require.Positive(t, used.Load())
	require.Positive(t, removed.Load())
}

func add(t *testing.T, db *state.DB, digests ...spec.Digest) {
	t.Helper()
	now, err := db.Clock(t.Context())
	require.NoError(t, err)
	rows := make([]state.Blob, len(digests))
	for i, digest := range digests {
		rows[i] = state.Blob{Digest: digest, Size: 1, Object: "o", Start: int64(i)}
	}
	require.NoError(t, db.AddBlobs(t.Context(), now, rows))
}
