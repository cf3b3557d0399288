package storage_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

func contentOf(t *testing.T, s *storage.Directory, digest spec.Digest) string {
	t.Helper()
	r, err := s.OpenBlob(t.Context(), digest)
	require.NoError(t, err)
	defer r.Close()
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(data)
}

// listed returns the digests of all blobs, sorted. It fails if anything else is among them.
func listed(t *testing.T, s *storage.Directory) (all []spec.Digest) {
	t.Helper()
	require.NoError(t, s.ListBlobs(t.Context(),
		func(digest spec.Digest, _ storage.BlobInfo) { all = append(all, digest) },
		func(key, _ string) { require.Fail(t, "not a blob", key) }))
	slices.Sort(all)
	return all
}

// TestABatchIsStoredAsAWhole: no blob of it is visible before it is committed, and none stays if it is not.
func TestABatchIsStoredAsAWhole(t *testing.T) {
	t.Parallel()
	s := opener(t)()
	streamed := bytes.Repeat([]byte("streamed "), 100_000)
	for _, commits := range []bool{false, true, true} {
		b, err := s.NewBatch()
		require.NoError(t, err)
		for i := range 100 {
			content := bytes.Repeat([]byte{byte(i)}, i)
			require.NoError(t, b.Put(t.Context(), storage.DigestOf(content), content))
		}
		w, err := b.NewBlob()
		require.NoError(t, err)
		_, err = w.Write(streamed)
		require.NoError(t, err)
		require.NoError(t, w.Add(storage.DigestOf(streamed)))
		require.NoError(t, w.Close())
		before := len(listed(t, s))
		if commits {
			require.NoError(t, b.Commit(t.Context()))
			before = 101
		}
		require.NoError(t, b.Close())
		require.Len(t, listed(t, s), before)
	}
	require.Equal(t, string(streamed), contentOf(t, s, storage.DigestOf(streamed)))
}

// TestDamagedBlobsAreRepairedOrMoved: a put repairs a damaged blob; one that is found damaged is moved, unless it was repaired in
// the meantime.
func TestDamagedBlobsAreRepairedOrMoved(t *testing.T) {
	t.Parallel()
	s := opener(t)()
	digest := storage.DigestOf([]byte("as it was"))
	require.NoError(t, s.PutBlob(t.Context(), digest, []byte("as it was")))
	for _, wrong := range []string{"", "as it is!", "longer than it was"} {
		path := filepath.Join(s.Root(), storage.BlobKey(digest))
		require.NoError(t, os.WriteFile(path, []byte(wrong), 0o600))
		moved, err := s.MoveDamaged(t.Context(), digest)
		require.NoError(t, err)
		data, err := s.Read(moved)
		require.NoError(t, err)
		require.Equal(t, wrong, string(data))
		require.NoError(t, os.WriteFile(path, []byte(wrong), 0o600))
		require.NoError(t, s.PutBlob(t.Context(), digest, []byte("as it was")))
		moved, err = s.MoveDamaged(t.Context(), digest)
		require.NoError(t, err)
		require.Empty(t, moved, "it is not damaged any more")
		require.Equal(t, "as it was", contentOf(t, s, digest))
	}
}

// TestSweepingKeepsWhatWasUsed: nothing that was used since a time is removed, and as a whole nothing is removed beside it.
func TestSweepingKeepsWhatWasUsed(t *testing.T) {
	t.Parallel()
	open := opener(t)
	s, gone, kept := open(), storage.DigestOf([]byte("gone")), storage.DigestOf([]byte("kept"))
	require.NoError(t, s.PutBlob(t.Context(), gone, []byte("gone")))
	require.NoError(t, s.PutBlob(t.Context(), kept, []byte("kept")))
	long := time.Now().Add(-time.Hour)
	for _, digest := range []spec.Digest{gone, kept} {
		require.NoError(t, os.Chtimes(filepath.Join(s.Root(), storage.BlobKey(digest)), long, long))
	}
	require.NoError(t, open().UseBlob(t.Context(), kept))
	both, since := []spec.Digest{gone, kept}, time.Now().Add(-time.Minute)
	swept, used, err := s.SweepBlobs(t.Context(), both, since, true)
	require.NoError(t, err)
	require.Equal(t, []spec.Digest{kept}, used)
	require.Zero(t, swept)
	swept, used, err = s.SweepBlobs(t.Context(), both, since, false)
	require.NoError(t, err)
	require.Equal(t, []spec.Digest{kept}, used)
	require.Equal(t, storage.Swept{Blobs: 1, Bytes: 4}, swept)
	require.Equal(t, []spec.Digest{kept}, listed(t, s))
	require.ErrorIs(t, s.UseBlob(t.Context(), gone), storage.ErrNotFound)
}
