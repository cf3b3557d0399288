package storage_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

func digestOf(data []byte) spec.Digest {
	sum := sha256.Sum256(data)
	return spec.Digest(hex.EncodeToString(sum[:]))
}

func contentOf(t *testing.T, s *storage.Directory, digest spec.Digest) []byte {
	t.Helper()
	r, err := s.OpenBlob(digest)
	require.NoError(t, err)
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	return data
}

// TestBlobsAreWrittenOnce: content is read back under its digest, small or large, and is created once.
func TestBlobsAreWrittenOnce(t *testing.T) {
	t.Parallel()
	open := opener(t)
	s := open()
	large := make([]byte, 3<<20)
	_, _ = rand.Read(large)
	for _, content := range [][]byte{nil, []byte("small"), large} {
		digest := digestOf(content)
		_, err := s.OpenBlob(digest)
		require.ErrorIs(t, err, storage.ErrNotFound)
		_, err = s.StatBlob(digest)
		require.ErrorIs(t, err, storage.ErrNotFound)
		require.ErrorIs(t, s.UseBlob(digest), storage.ErrNotFound)
		require.NoError(t, s.PutBlob(digest, content))
		require.NoError(t, open().PutBlob(digest, content), "again")
		require.True(t, bytes.Equal(content, contentOf(t, open(), digest)))
		info, err := s.StatBlob(digest)
		require.NoError(t, err)
		require.Equal(t, int64(len(content)), info.Size)
	}
}

// TestABlobCanBeStreamed: written content is a blob once its batch is committed, and not before.
func TestABlobCanBeStreamed(t *testing.T) {
	t.Parallel()
	open := opener(t)
	s := open()
	for _, content := range [][]byte{bytes.Repeat([]byte("streamed "), 100_000), []byte("small"), nil} {
		digest := digestOf(content)
		before := listed(t, s)
		for i := range 4 {
			b, err := s.NewBatch()
			require.NoError(t, err)
			w, err := b.NewBlob()
			require.NoError(t, err)
			_, err = io.Copy(w, bytes.NewReader(content))
			require.NoError(t, err)
			if i > 0 {
				require.NoError(t, w.Add(digest))
				info, err := b.StatBlob(digest)
				require.NoError(t, err)
				require.EqualValues(t, len(content), info.Size, "the batch has it")
			}
			require.NoError(t, w.Close())
			if i > 1 {
				require.NoError(t, b.Commit(t.Context()))
			}
			require.NoError(t, b.Close())
			_, err = open().StatBlob(digest)
			require.Equal(t, i < 2, err != nil, "it is there once it is committed")
		}
		require.True(t, bytes.Equal(content, contentOf(t, s, digest)))
		require.Len(t, listed(t, s), len(before)+1, "a blob that was discarded leaves nothing")
	}
}

// manyBlobs returns blobs of many sizes.
func manyBlobs() (contents [][]byte) {
	for i := range 2000 {
		contents = append(contents, bytes.Repeat(fmt.Appendf(nil, "%d ", i), 1+i%200))
	}
	return contents
}

// putTogether puts blobs with one batch, from several goroutines.
func putTogether(t *testing.T, s *storage.Directory, contents [][]byte) {
	t.Helper()
	b, err := s.NewBatch()
	require.NoError(t, err)
	var all errgroup.Group
	for half := range slices.Chunk(contents, max(len(contents)/2, 1)) {
		all.Go(func() error {
			for _, content := range half {
				if err := b.Put(digestOf(content), content); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
	require.NoError(t, b.Commit(t.Context()))
	require.NoError(t, b.Close())
}

// TestManyBlobsCanBePutTogether: blobs of a batch behave as any other blobs.
func TestManyBlobsCanBePutTogether(t *testing.T) {
	t.Parallel()
	open := opener(t)
	s, contents := open(), manyBlobs()
	abandoned, err := s.NewBatch()
	require.NoError(t, err)
	for _, content := range contents {
		require.NoError(t, abandoned.Put(digestOf(content), content))
	}
	require.NoError(t, abandoned.Close())
	require.Empty(t, listed(t, s))

	require.NoError(t, s.PutBlob(digestOf(contents[0]), contents[0]))
	large := bytes.Repeat([]byte("large"), 100_000)
	contents = append(contents, large, contents[1])
	other := open()
	require.Len(t, listed(t, other), 1)
	putTogether(t, s, contents)
	all := listed(t, other)
	require.Len(t, slices.Compact(slices.Clone(all)), len(contents)-1)
	putTogether(t, s, contents)
	require.Equal(t, all, listed(t, other), "some were put again")
	for _, content := range contents {
		digest := digestOf(content)
		require.True(t, bytes.Equal(content, contentOf(t, other, digest)))
		info, err := other.StatBlob(digest)
		require.NoError(t, err)
		require.Equal(t, int64(len(content)), info.Size)
		require.NoError(t, other.PutBlob(digest, content))
		require.NoError(t, other.UseBlob(digest))
	}
}

// TestManyPutTheSameBlobs: many goroutines put the same blobs at once; readers see complete blobs.
func TestManyPutTheSameBlobs(t *testing.T) {
	t.Parallel()
	open := opener(t)
	const writers, each = 4, 20
	contents := make([][]byte, each)
	for i := range contents {
		contents[i] = bytes.Repeat([]byte{byte(i)}, 1+i*7_000)
	}
	var all sync.WaitGroup
	failed := make(chan error, writers*each)
	for range writers {
		all.Go(func() {
			s := open()
			for _, content := range contents {
				if err := s.PutBlob(digestOf(content), content); err != nil {
					failed <- err
					continue
				}
				r, err := s.OpenBlob(digestOf(content))
				if err != nil {
					failed <- err
					continue
				}
				data, err := io.ReadAll(r)
				_ = r.Close()
				if err != nil || !bytes.Equal(data, content) {
					failed <- errors.New("incomplete")
				}
			}
		})
	}
	all.Wait()
	require.Empty(t, failed)
	require.Len(t, listed(t, open()), each)
}

// TestDamagedBlobsAreRepairedOrMoved: a put repairs a damaged blob; a quarantine removes it, unless it was repaired in
// the meantime.
func TestDamagedBlobsAreRepairedOrMoved(t *testing.T) {
	t.Parallel()
	open := opener(t)
	s := open()
	content := []byte("as it was")
	digest := digestOf(content)
	damage := func(digest spec.Digest, wrong string) {
		require.NoError(t, os.WriteFile(filepath.Join(s.Root(), storage.BlobKey(digest)), []byte(wrong), 0o600))
	}
	for _, wrong := range []string{"", "as it is!", "longer than it was"} {
		require.NoError(t, s.PutBlob(digest, content))
		damage(digest, wrong)
		require.NoError(t, s.PutBlob(digest, content))
		require.Equal(t, content, contentOf(t, open(), digest), "it is repaired")

		damage(digest, wrong)
		putTogether(t, s, [][]byte{content})
		require.Equal(t, content, contentOf(t, open(), digest), "it is repaired")

		moved, err := s.MoveDamaged(digest)
		require.NoError(t, err)
		require.Empty(t, moved, "it is not damaged")
		require.Equal(t, content, contentOf(t, open(), digest))

		damage(digest, wrong)
		moved, err = s.MoveDamaged(digest)
		require.NoError(t, err)
		data, err := s.Read(moved)
		require.NoError(t, err)
		require.Equal(t, wrong, string(data), "it is kept elsewhere")
		_, err = s.StatBlob(digest)
		require.ErrorIs(t, err, storage.ErrNotFound)
	}
}

// TestSweepingExcludesUsing: a sweep removes blobs, and no blob can be marked as used during it. A put or use
// updates the blob's time of use.
func TestSweepingExcludesUsing(t *testing.T) {
	t.Parallel()
	open := opener(t)
	s := open()
	old, kept := manyBlobs(), []byte("kept")
	require.NoError(t, s.PutBlob(digestOf(kept), kept))
	putTogether(t, s, old)
	left := append([][]byte{kept}, old...)
	for _, n := range []int{1, 500, 1200, 300} {
		gone, rest := left[:n], left[n:]
		used := make(chan error, 1)
		require.NoError(t, s.SweepBlobs(func(remove func(spec.Digest) error) error {
			go func() { used <- open().UseBlob(digestOf(gone[n-1])) }()
			select {
			case err := <-used:
				require.FailNow(t, "used in the middle of a sweep", "%v", err)
			case <-time.After(50 * time.Millisecond):
			}
			for _, content := range gone {
				require.NoError(t, remove(digestOf(content)))
				require.NoError(t, remove(digestOf(content)), "it is gone")
			}
			return nil
		}))
		require.ErrorIs(t, <-used, storage.ErrNotFound)
		for _, content := range gone {
			_, err := open().StatBlob(digestOf(content))
			require.ErrorIs(t, err, storage.ErrNotFound)
		}
		for _, content := range rest {
			require.Equal(t, content, contentOf(t, s, digestOf(content)))
		}
		left = rest
	}
	require.Empty(t, listed(t, s))

	for _, content := range [][]byte{kept, old[7]} {
		putTogether(t, s, append(old[:300:300], kept))
		made, err := s.StatBlob(digestOf(content))
		require.NoError(t, err)
		require.Eventually(t, func() bool { // file times have a resolution of milliseconds
			require.NoError(t, open().UseBlob(digestOf(content)))
			now, err := s.StatBlob(digestOf(content))
			require.NoError(t, err)
			return now.Used.After(made.Used)
		}, time.Minute, time.Millisecond)
	}
}

// TestHostileDigestsAreRefused: an invalid digest is an error.
func TestHostileDigestsAreRefused(t *testing.T) {
	t.Parallel()
	open := opener(t)
	s := open()
	for _, digest := range []spec.Digest{"", "..", digestLike("a", 63), digestLike("a", 65), digestLike("A", 64), "../../.." + digestLike("a", 58), digestLike("/", 64)} {
		require.ErrorIs(t, s.PutBlob(digest, nil), storage.ErrKey, digest)
		_, err := s.OpenBlob(digest)
		require.ErrorIs(t, err, storage.ErrKey, digest)
		_, err = s.StatBlob(digest)
		require.ErrorIs(t, err, storage.ErrKey, digest)
		_, err = s.MoveDamaged(digest)
		require.ErrorIs(t, err, storage.ErrKey, digest)
		require.ErrorIs(t, s.UseBlob(digest), storage.ErrKey, digest)
		require.ErrorIs(t, s.SweepBlobs(func(remove func(spec.Digest) error) error { return remove(digest) }), storage.ErrKey, digest)
	}
}

func digestLike(digit string, n int) spec.Digest { return spec.Digest(strings.Repeat(digit, n)) }

// listed returns the digests of all blobs, sorted. It fails if anything else is among them.
func listed(t *testing.T, s *storage.Directory) []spec.Digest {
	t.Helper()
	var all []spec.Digest
	require.NoError(t, s.ListBlobs(t.Context(),
		func(digest spec.Digest) { all = append(all, digest) },
		func(key, _ string) { require.Fail(t, "not a blob", key) }))
	slices.Sort(all)
	return all
}
