// Package storagetest is the suite that every storage of content has to pass.
package storagetest

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"io"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// Clock is a clock that a test sets. It begins at the time of the machine, which files have.
type Clock struct{ ahead atomic.Int64 }

// Now is its time.
func (c *Clock) Now() time.Time {
	return time.Now().Add(time.Duration(c.ahead.Load())) //nolint:forbidigo // the time that files get
}

// Pass lets time pass.
func (c *Clock) Pass(d time.Duration) { c.ahead.Add(int64(d)) }

// Host opens the same content as a process on another host would.
type Host func() storage.Content

// Open makes empty content for a test.
type Open func(t *testing.T, clock *Clock) Host

var cases = map[string]func(t *testing.T, host Host, clock *Clock){
	"what is put is read":          putsAreRead,
	"a batch is stored as a whole": batchesAreWhole,
	"invalid digests are refused":  digestsAreChecked,
	"a sweep keeps what was used":  sweepsKeepUses,
	"what is fetched is read":      fetchesAreRead,
}

// Run runs the suite.
func Run(t *testing.T, open Open) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &Clock{}
			test(t, open(t, clock), clock)
		})
	}
}

// Random is content of this size that no other call returns.
func Random(size int) []byte {
	data := make([]byte, size)
	_, _ = crand.Read(data) // never fails
	return data
}

// Put stores content as a batch, and returns the digests.
func Put(ctx context.Context, c storage.Content, contents ...[]byte) (digests []spec.Digest, err error) {
	b, err := c.NewBatch()
	if err != nil {
		return nil, err
	}
	defer b.Close() //nolint:errcheck // what it leaves behind is removed later
	for _, content := range contents {
		digest := spec.DigestOf(content)
		if err := b.Put(ctx, digest, content); err != nil {
			return nil, err
		}
		digests = append(digests, digest)
	}
	return digests, b.Commit(ctx)
}

// Read returns the content of a blob.
func Read(ctx context.Context, c storage.Content, digest spec.Digest) ([]byte, error) {
	f, err := c.OpenBlob(ctx, digest)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	return io.ReadAll(f)
}

// Listed returns the digests of all blobs, sorted. It fails if anything else is among them.
func Listed(t *testing.T, c storage.Content) (all []spec.Digest) {
	t.Helper()
	require.NoError(t, c.ListBlobs(t.Context(),
		func(digest spec.Digest, _ storage.BlobInfo) { all = append(all, digest) },
		func(key, _ string) { require.Fail(t, "not a blob", key) }))
	slices.Sort(all)
	return all
}

func putsAreRead(t *testing.T, host Host, _ *Clock) {
	c := host()
	var all []spec.Digest
	for _, size := range []int{0, 1, 1000, 256<<10 - 1, 256 << 10, 256<<10 + 1, 17 << 20} {
		content := Random(size)
		digest := spec.DigestOf(content)
		_, err := c.OpenBlob(t.Context(), digest)
		require.ErrorIs(t, err, storage.ErrNotFound)
		require.ErrorIs(t, c.UseBlob(t.Context(), digest), storage.ErrNotFound)
		for range 2 {
			require.NoError(t, c.PutBlob(t.Context(), digest, content))
		}
		for _, from := range []storage.Content{c, host()} {
			read, err := Read(t.Context(), from, digest)
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, read))
			found, err := from.StatBlobs(t.Context(), digest, spec.DigestOf([]byte("no such")))
			require.NoError(t, err)
			require.Len(t, found, 1)
			require.EqualValues(t, size, found[digest].Size)
		}
		require.NoError(t, c.UseBlob(t.Context(), digest))
		all = append(all, digest)
	}
	slices.Sort(all)
	require.Equal(t, all, Listed(t, c))
}

// batchesAreWhole: no blob of a batch is visible before it is committed, and none stays if it is not.
func batchesAreWhole(t *testing.T, host Host, _ *Clock) {
	c, streamed := host(), Random(900_000)
	for _, commits := range []bool{false, true, true} {
		b, err := c.NewBatch()
		require.NoError(t, err)
		for i := range 100 {
			content := bytes.Repeat([]byte{byte(i)}, i)
			require.NoError(t, b.Put(t.Context(), spec.DigestOf(content), content))
		}
		w, err := b.NewBlob()
		require.NoError(t, err)
		_, err = w.Write(streamed)
		require.NoError(t, err)
		require.NoError(t, w.Add(spec.DigestOf(streamed)))
		require.NoError(t, w.Close())
		before := len(Listed(t, c))
		if commits {
			require.NoError(t, b.Commit(t.Context()))
			before = 101
		}
		require.NoError(t, b.Close())
		require.Len(t, Listed(t, host()), before)
	}
	read, err := Read(t.Context(), host(), spec.DigestOf(streamed))
	require.NoError(t, err)
	require.True(t, bytes.Equal(streamed, read))
}

func digestsAreChecked(t *testing.T, host Host, _ *Clock) {
	c := host()
	for _, wrong := range []spec.Digest{"", "../../etc/passwd", "A" + spec.DigestOf(nil)[1:]} {
		_, err := c.OpenBlob(t.Context(), wrong)
		require.ErrorIs(t, err, storage.ErrKey)
		_, err = c.StatBlobs(t.Context(), wrong)
		require.ErrorIs(t, err, storage.ErrKey)
		require.ErrorIs(t, c.PutBlob(t.Context(), wrong, nil), storage.ErrKey)
		require.ErrorIs(t, c.UseBlob(t.Context(), wrong), storage.ErrKey)
	}
}

func sweepsKeepUses(t *testing.T, host Host, clock *Clock) {
	c := host()
	digests, err := Put(t.Context(), c, []byte("gone"), []byte("kept"), []byte("put again"))
	require.NoError(t, err)
	clock.Pass(48 * time.Hour)
	require.NoError(t, host().UseBlob(t.Context(), digests[1]))
	require.NoError(t, host().PutBlob(t.Context(), digests[2], []byte("put again")))
	now, err := c.Now(t.Context())
	require.NoError(t, err)
	since := now.Add(-24 * time.Hour)
	swept, used, err := c.SweepBlobs(t.Context(), digests, since, true)
	require.NoError(t, err)
	require.ElementsMatch(t, digests[1:], used)
	require.Zero(t, swept)
	swept, _, err = c.SweepBlobs(t.Context(), digests, since, false)
	require.NoError(t, err)
	require.Equal(t, storage.Swept{Blobs: 1, Bytes: 4}, swept)
	require.Len(t, Listed(t, c), 2)
	require.ErrorIs(t, c.UseBlob(t.Context(), digests[0]), storage.ErrNotFound)
	require.NoError(t, c.PutBlob(t.Context(), digests[0], []byte("gone")))
	read, err := Read(t.Context(), host(), digests[0])
	require.NoError(t, err)
	require.Equal(t, "gone", string(read))
}

func fetchesAreRead(t *testing.T, host Host, _ *Clock) {
	contents := [][]byte{Random(600_000), Random(3 << 20), nil}
	for range 300 {
		contents = append(contents, Random(rand.IntN(50_000))) //nolint:gosec // any will do
	}
	digests, err := Put(t.Context(), host(), contents...)
	require.NoError(t, err)
	other := host()
	require.NoError(t, other.Fetch(t.Context(), append(digests, spec.DigestOf([]byte("no such")))))
	for i, digest := range digests {
		read, err := Read(t.Context(), other, digest)
		require.NoError(t, err)
		require.True(t, bytes.Equal(contents[i], read))
	}
}

// Hosts opens a bucket on hosts that share a database, each with a cache of its own of so many bytes.
func Hosts(t *testing.T, clock *Clock, address string, cacheBytes int64) Host {
	t.Helper()
	db, err := state.OpenSQLite(t.Context(), t.TempDir(), state.Options{Now: clock.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return func() storage.Content {
		cache, err := storage.NewDirectory(t.TempDir(), clock.Now)
		require.NoError(t, err)
		b, err := storage.OpenBucket(t.Context(), storage.BucketOptions{
			Address: address, Cache: cache, CacheBytes: cacheBytes, Rows: db,
			KindOf: func([]byte) state.RootKind { return state.RootBlob },
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		return b
	}
}
