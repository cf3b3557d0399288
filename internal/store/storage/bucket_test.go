package storage_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/storage"
	"github.com/maestro-hive/maestro/internal/store/storage/storagetest"
)

func TestDirectory(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T, clock *storagetest.Clock) storagetest.Host {
		dir := t.TempDir()
		return func() storage.Content {
			d, err := storage.NewDirectory(dir, clock.Now)
			require.NoError(t, err)
			return d
		}
	})
}

func TestBucket(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T, clock *storagetest.Clock) storagetest.Host {
		return storagetest.Hosts(t, clock, "file://"+t.TempDir(), 0)
	})
}

func TestNoSweepLosesWhatWasPutOrUsed(t *testing.T) {
	t.Parallel()
	clock := &storagetest.Clock{}
	storagetest.Race(t, storagetest.Hosts(t, clock, "file://"+t.TempDir(), 0), clock)
}

// TestAnUploadThatTakesADayIsRepeated: its object may have been removed before its rows are added.
func TestAnUploadThatTakesADayIsRepeated(t *testing.T) {
	t.Parallel()
	clock := &storagetest.Clock{}
	db, err := state.OpenSQLite(t.Context(), t.TempDir(), state.Options{Now: clock.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	cache, err := storage.NewDirectory(t.TempDir(), clock.Now)
	require.NoError(t, err)
	uploads := 0
	b, err := storage.OpenBucket(t.Context(), storage.BucketOptions{
		Address: "file://" + t.TempDir(), Cache: cache, Rows: db,
		KindOf: func([]byte) state.RootKind {
			if uploads++; uploads == 1 {
				clock.Pass(25 * time.Hour)
			}
			return state.RootBlob
		},
	})
	require.NoError(t, err)
	digests, err := storagetest.Put(t.Context(), b, []byte("content"))
	require.NoError(t, err)
	require.Equal(t, 2, uploads)
	swept, err := b.SweepObjects(t.Context())
	require.NoError(t, err)
	require.Equal(t, storage.Swept{Blobs: 1, Bytes: 7}, swept, "the object of the first try")
	require.NoError(t, os.RemoveAll(cache.Root()))
	read, err := storagetest.Read(t.Context(), b, digests[0])
	require.NoError(t, err)
	require.Equal(t, "content", string(read))
}

// TestWhatAHostHasIsFetchedWithoutTheDatabase: each room fetches its whole tree, and almost always has it.
func TestWhatAHostHasIsFetchedWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	clock := &storagetest.Clock{}
	db, err := state.OpenSQLite(t.Context(), t.TempDir(), state.Options{Now: clock.Now})
	require.NoError(t, err)
	cache, err := storage.NewDirectory(t.TempDir(), clock.Now)
	require.NoError(t, err)
	b, err := storage.OpenBucket(t.Context(), storage.BucketOptions{
		Address: "file://" + t.TempDir(), Cache: cache, Rows: db, KindOf: func([]byte) state.RootKind { return state.RootBlob },
	})
	require.NoError(t, err)
	digests, err := storagetest.Put(t.Context(), b, []byte("content"))
	require.NoError(t, err)
	require.NoError(t, db.Close())
	require.NoError(t, b.Fetch(t.Context(), digests))
	require.Error(t, b.Fetch(t.Context(), append(digests, spec.DigestOf([]byte("not here")))))
}

// TestTheCacheIsBounded: what was not used for the longest time goes, and what was used in the last minutes stays.
func TestTheCacheIsBounded(t *testing.T) {
	t.Parallel()
	clock := &storagetest.Clock{}
	const bound = 1 << 20
	b := storagetest.Hosts(t, clock, "file://"+t.TempDir(), bound)().(*storage.Bucket)
	var digests []spec.Digest
	for range 40 {
		some, err := storagetest.Put(t.Context(), b, storagetest.Random(100_000))
		require.NoError(t, err)
		digests = append(digests, some...)
		clock.Pass(20 * time.Minute)
		_, err = storagetest.Read(t.Context(), b, digests[0]) // is in use all the time
		require.NoError(t, err)
		size := int64(0)
		require.NoError(t, b.Cache().ListBlobs(t.Context(), func(_ spec.Digest, info storage.BlobInfo) { size += info.Size }, nil))
		require.LessOrEqual(t, size, int64(bound+200_000))
	}
	_, err := b.Cache().OpenBlob(t.Context(), digests[0])
	require.NoError(t, err)
	_, err = b.Cache().OpenBlob(t.Context(), digests[1])
	require.ErrorIs(t, err, storage.ErrNotFound)
	read, err := storagetest.Read(t.Context(), b, digests[1])
	require.NoError(t, err)
	require.Len(t, read, 100_000)
}
