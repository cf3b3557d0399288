package store

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// watchedBlobs notes which blobs are put, and calls before once before the next one.
type watchedBlobs struct {
	storage.Blobs
	mu     sync.Mutex
	put    map[spec.Digest]bool
	before func()
}

func (w *watchedBlobs) NewBatch() (storage.BlobBatch, error) {
	b, err := w.Blobs.NewBatch()
	return &watchedBatch{b, w}, err
}

type watchedBatch struct {
	storage.BlobBatch
	w *watchedBlobs
}

func (b *watchedBatch) Put(digest spec.Digest, content []byte) error {
	w := b.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put[digest] = true
	if before := w.before; before != nil {
		w.before = nil
		before()
	}
	return b.BlobBatch.Put(digest, content)
}

// TestPruningKeepsWhatStampsName prunes a store while a directory is taken whose files
// have known stamps, so that they are neither read nor stored again.
func TestPruningKeepsWhatStampsName(t *testing.T) {
	t.Parallel()
	now := time.Now() // files bear the machine's time
	o := Options{Clock: func() time.Time { return now }}
	s, err := Create(filepath.Join(t.TempDir(), "store"), o)
	require.NoError(t, err)
	pruner, err := Open(s.Dir(), o)
	require.NoError(t, err)
	prune := func() int {
		report, err := pruner.Prune(t.Context(), session.PruneOptions{})
		require.NoError(t, err)
		return report.Blobs
	}
	blobs := &watchedBlobs{Blobs: s.files}
	s.Content = cas.New(blobs, cas.Options{StoreDir: s.Dir(), StampsDir: s.Dir() + "/stamps"})
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	known := cas.DigestOf([]byte("its stamp is known"))
	take := func() spec.Digest {
		blobs.put = map[spec.Digest]bool{}
		snap, err := s.Content.Snapshot(t.Context(), dir, cas.SnapshotOptions{})
		require.NoError(t, err)
		return snap.Manifest
	}
	write("a", "its stamp is known")
	write("b", "it changes")
	require.Eventually(t, func() bool { take(); return !blobs.put[known] }, time.Minute, time.Millisecond, "the clock of files ticks seldom")
	_, err = s.Content.PutBlob(t.Context(), []byte("waste"))
	require.NoError(t, err)

	now = now.Add(2 * youngBlob)
	write("b", "it has changed")
	removed := -1
	blobs.before = func() { removed = prune() }
	tree := take()
	require.Equal(t, 1, removed, "the waste")
	require.False(t, blobs.put[known])
	require.NoError(t, s.Content.Materialise(t.Context(), tree, filepath.Join(t.TempDir(), "tree")))

	// Nothing needs the tree any more, and then the stamps are not used.
	now = now.Add(2 * youngBlob)
	require.Greater(t, prune(), 1)
	tree = take()
	require.True(t, blobs.put[known])
	require.NoError(t, s.Content.Materialise(t.Context(), tree, filepath.Join(t.TempDir(), "tree")))
}
