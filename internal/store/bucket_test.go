package store_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/backup"
)

// inBucket makes a store whose content is in a bucket, a directory, and returns a function that opens it after some time.
func inBucket(t *testing.T) (s *store.Store, bucket string, later func(time.Duration) *store.Store) {
	t.Helper()
	bucket = t.TempDir()
	dir := filepath.Join(t.TempDir(), "store")
	later = func(by time.Duration) *store.Store {
		s, err := store.Create(dir, store.Options{
			Location: store.Location{Content: "file://" + bucket},
			Clock:    func() time.Time { return now.Add(by) },
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}
	return later(0), bucket, later
}

func filesIn(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	return names
}

// TestABucketIsPruned: rows go, and then the objects of which no row is left. What is needed stays, also beside it in an object.
func TestABucketIsPruned(t *testing.T) {
	t.Parallel()
	s, bucket, later := inBucket(t)
	closed(t, s, webSession)
	kept := len(filesIn(t, bucket, "content/*/*"))
	waste := snapshot(t, s, map[string]string{"a": "nobody needs this", "b": "nor this"})
	require.Len(t, filesIn(t, bucket, "content/*/*"), kept+1, "a tree is one object")
	s = later(tenDays)
	before := sound(t, s)
	plan := pruned(t, s, session.PruneOptions{DryRun: true})
	require.Equal(t, before, sound(t, s), "a dry run changes nothing")
	report := pruned(t, s, session.PruneOptions{})
	require.Equal(t, 3, report.Blobs, "two files and their directory")
	plan.DryRun = false
	require.Equal(t, plan, report)
	require.Len(t, filesIn(t, bucket, "content/*/*"), kept)
	require.ErrorIs(t, s.Content.Intact(t.Context(), waste), session.ErrNotFound)
	sound(t, s)

	// What a pruned host still has in its cache is not taken for stored.
	require.Equal(t, waste, snapshot(t, s, map[string]string{"a": "nobody needs this", "b": "nor this"}))
	require.NoError(t, s.Content.Intact(t.Context(), waste))
	require.Len(t, filesIn(t, bucket, "content/*/*"), kept+1)
}

// TestDamageInABucketIsNamedAndRepaired although this host has good copies: verify reads the bucket. What is put again is good.
func TestDamageInABucketIsNamedAndRepaired(t *testing.T) {
	t.Parallel()
	content := []byte("a transcript of many words")
	for what, damage := range map[string]struct {
		do   func(t *testing.T, path string)
		says string
		kind error
	}{
		"flipped": {func(t *testing.T, path string) {
			data := read(t, path)
			data[3] ^= 1
			require.NoError(t, os.WriteFile(path, data, 0o600))
		}, "has other bytes than the blob's from 0 to 26", session.ErrCorrupt},
		"cut": {
			func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 9)) },
			"has 9 bytes; the blob ends after 26", session.ErrCorrupt,
		},
		"empty": {func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 0)) }, "has 0 bytes", session.ErrCorrupt},
		"gone":  {func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }, "does not exist", session.ErrNotFound},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, bucket, _ := inBucket(t)
			name := stored(t, s, content)
			object := filesIn(t, bucket, "content/*/[0-9]*")[0]
			damage.do(t, object)

			report := verified(t, s)
			if what != "gone" { // nobody needs the blob, and it may have been pruned
				require.Len(t, report.Faults, 1)
				require.Contains(t, report.Faults[0].Path, string(name[2:]))
				require.ErrorContains(t, &report.Faults[0], filepath.Base(object)+" of the bucket "+damage.says)
				require.ErrorIs(t, &report.Faults[0], damage.kind)
			}
			_, err := s.Content.BlobSize(t.Context(), name)
			require.ErrorIs(t, err, session.ErrNotFound, "it has no row any more")
			require.Equal(t, name, stored(t, s, content))
			sound(t, s)

			for _, path := range filesIn(t, bucket, "content/*/[0-9]*") {
				if path != object {
					damage.do(t, path)
				}
			}
			require.NoError(t, os.RemoveAll(filepath.Join(s.Dir(), "blobs")))
			_, err = s.Content.Blob(t.Context(), name)
			require.ErrorIs(t, err, damage.kind)
			require.ErrorContains(t, err, damage.says)
		})
	}
}

// TestAnotherBucketIsRefused: with a wrong address nothing is called missing, and nothing is written.
func TestAnotherBucketIsRefused(t *testing.T) {
	t.Parallel()
	s, bucket, later := inBucket(t)
	name := stored(t, s, []byte("content"))
	require.NoError(t, os.RemoveAll(filepath.Join(s.Dir(), "blobs")))
	require.NoError(t, os.Rename(bucket, bucket+"-away"))
	other := later(0)
	for _, err := range []error{
		func() error { _, err := other.Content.Blob(t.Context(), name); return err }(),
		func() error { _, err := other.Content.PutBlob(t.Context(), []byte("more")); return err }(),
		func() error { _, err := other.VerifyAll(t.Context()); return err }(),
		func() error { _, err := other.Prune(t.Context(), session.PruneOptions{}); return err }(),
	} {
		require.ErrorContains(t, err, "is this another bucket or prefix?")
		require.NotErrorIs(t, err, session.ErrNotFound)
		require.NotErrorIs(t, err, session.ErrCorrupt)
	}
	require.NoError(t, os.RemoveAll(bucket))
	require.NoError(t, os.Rename(bucket+"-away", bucket))
	data, err := other.Content.Blob(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, "content", string(data))
}

// TestTheMirrorIsInTheBucket, and on the host that wrote it. Another host that lacks it is not damaged.
func TestTheMirrorIsInTheBucket(t *testing.T) {
	t.Parallel()
	s, bucket, _ := inBucket(t)
	closed(t, s, webSession)
	objects := filesIn(t, bucket, "mirror/default/web-1/*")
	require.Len(t, objects, 5, "the status and four checkpoints")
	for _, path := range objects {
		require.Equal(t, read(t, filepath.Join(s.MirrorDir(webSession), filepath.Base(path))), read(t, path))
	}
	require.NoError(t, os.RemoveAll(s.MirrorDir(webSession)))
	sound(t, s)
	require.NoError(t, os.Remove(objects[0]))
	report := verified(t, s)
	require.Len(t, report.Faults, 1)
	require.NotEmpty(t, report.Faults[0].Repaired)
	sound(t, s)
}

// TestABucketIsNotBackedUp as a directory: its files are a cache.
func TestABucketIsNotBackedUp(t *testing.T) {
	t.Parallel()
	s, _, _ := inBucket(t)
	to := filepath.Join(t.TempDir(), "backup")
	_, err := backup.Run(t.Context(), s, to, backup.Options{Clock: time.Now})
	require.ErrorContains(t, err, "keep versions of the bucket's objects")
	require.NoDirExists(t, to)
}
