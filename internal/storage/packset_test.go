package storage_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/storage"
)

// TestPacksOfOthersAreFound, however long the packs had not changed before.
func TestPacksOfOthersAreFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		one, other := open(t, dir), open(t, dir)
		require.NoError(t, putBatch(t.Context(), one, numbered(0, 300)))
		long := time.Now().Add(-time.Hour)
		require.NoError(t, os.Chtimes(filepath.Join(dir, "blobs", "packs"), long, long))
		later := numbered(300, 600)
		for range 3 { // it lists the packs
			_, err := other.StatBlob(digest(later[0]))
			require.ErrorIs(t, err, storage.ErrNotFound)
			time.Sleep(time.Minute)
		}
		require.NoError(t, putBatch(t.Context(), one, later))
		intact(t, other, later)
	})
}

// BenchmarkAmongPacks looks blobs up that are there and that are not, in a store with one pack
// and in one with many, and reports how much longer it takes among many.
func BenchmarkAmongPacks(b *testing.B) {
	const many = 1000
	took := map[int]time.Duration{}
	for _, packs := range []int{1, many} {
		s := open(b, b.TempDir())
		for i := range packs {
			require.NoError(b, putBatch(b.Context(), s, numbered(i*300, i*300+300)))
		}
		there, missing := digest(numbered(0, 1)[0]), digest([]byte("none"))
		for settled := time.Now().Add(3 * time.Second); time.Now().Before(settled); {
			_, _ = s.StatBlob(missing)
		}
		start := time.Now()
		for range b.N {
			_, err := s.StatBlob(there)
			require.NoError(b, err)
			_, err = s.StatBlob(missing)
			require.ErrorIs(b, err, storage.ErrNotFound)
		}
		took[packs] = time.Since(start)
	}
	b.ReportMetric(float64(took[many])/float64(took[1]), "times-one-pack")
	b.ReportMetric(float64(took[many].Microseconds())/float64(b.N), "us/lookups")
}
