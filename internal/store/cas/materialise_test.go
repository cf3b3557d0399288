package cas_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/storage/storagetest"
)

func TestModesAreNormal(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	dir, m := materialised(t, s, map[string]string{"plain": "x", "d/run": "#!x"})
	require.NoError(t, os.Chmod(filepath.Join(dir, "plain"), 0o777))
	require.NoError(t, os.Chmod(filepath.Join(dir, "d"), 0o700))
	require.NoError(t, s.Materialise(t.Context(), m, dir))
	for p, want := range map[string]os.FileMode{"plain": 0o644, "d/run": 0o755, "d": 0o755 | os.ModeDir} {
		info, err := os.Stat(filepath.Join(dir, p))
		require.NoError(t, err)
		require.Equal(t, want, info.Mode(), p)
	}
}

func TestADamagedBlobIsFoundWhenATreeIsFilled(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"small": "content", "large": strings.Repeat("content", 100_000)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			files := map[string]string{"a": content, "b": "1"}
			m := snapshot(t, s, files)
			blob := sha([]byte(content))
			damaged := []byte(content)
			damaged[5] ^= 1
			require.NoError(t, os.WriteFile(blobPath(s, blob), damaged, 0o600))
			dir := filepath.Join(t.TempDir(), "tree")
			err := s.Materialise(t.Context(), m, dir)
			require.ErrorIs(t, err, session.ErrCorrupt)
			require.ErrorContains(t, err, string(blob[2:]))
			err = s.Materialise(t.Context(), m, dir)
			require.ErrorIs(t, err, session.ErrNotFound)

			require.Equal(t, m, snapshot(t, s, files), "a new snapshot brings it back")
			require.NoError(t, s.Materialise(t.Context(), m, dir))
			require.Equal(t, files, readTree(t, dir))
		})
	}
}

func TestNothingOutsideIsTouched(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	outside := t.TempDir()
	writeTree(t, outside, map[string]string{"precious": "1", "a": "1"})
	m := snapshot(t, s, map[string]string{"d/a": "2", "e": "3"})

	dir := filepath.Join(t.TempDir(), "tree")
	writeTree(t, dir, map[string]string{"d": "-> " + outside, "e": "-> " + filepath.Join(outside, "precious"), "f": "-> " + outside})
	require.NoError(t, s.Materialise(t.Context(), m, dir))
	require.Equal(t, map[string]string{"d/a": "2", "e": "3"}, readTree(t, dir))

	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.Symlink(outside, dir), "the directory itself is a link")
	require.NoError(t, s.Materialise(t.Context(), m, dir))
	require.Equal(t, map[string]string{"d/a": "2", "e": "3"}, readTree(t, dir))

	require.Equal(t, map[string]string{"precious": "1", "a": "1"}, readTree(t, outside))
}

func TestExport(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	m := snapshot(t, s, map[string]string{
		"README.md": "r", "docs/a.md": "a", "docs/b.txt": "b", "bin/run": "#!x",
		"l": "-> README.md",
	})
	for _, c := range []struct {
		wanted, want []string
	}{
		{nil, []string{"README.md", "bin/run", "docs/a.md", "docs/b.txt", "l"}},
		{[]string{"."}, []string{"README.md", "bin/run", "docs/a.md", "docs/b.txt", "l"}},
		{[]string{"docs"}, []string{"docs/a.md", "docs/b.txt"}},
		{[]string{"docs/", "docs/a.md"}, []string{"docs/a.md", "docs/b.txt"}},
		{[]string{"**/*.md", "./l"}, []string{"README.md", "docs/a.md", "l"}},
	} {
		dir := filepath.Join(t.TempDir(), "out")
		got, err := s.Export(t.Context(), m, c.wanted, dir, false)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
		require.Len(t, readTree(t, dir), len(c.want))
	}
	_, err := s.Export(t.Context(), m, []string{"docs", "nope"}, t.TempDir(), false)
	require.ErrorIs(t, err, session.ErrNotFound)
	require.ErrorContains(t, err, "nope")
}

func TestExportLeavesWhatIsThere(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	m := snapshot(t, s, map[string]string{"a": "new", "d/b": "new"})
	outside := t.TempDir()
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"mine": "1", "d/b": "old"})
	_, err := s.Export(t.Context(), m, nil, dir, false)
	require.ErrorContains(t, err, "d/b")
	require.Equal(t, map[string]string{"mine": "1", "d/b": "old"}, readTree(t, dir), "nothing was written")

	_, err = s.Export(t.Context(), m, nil, dir, true)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"mine": "1", "a": "new", "d/b": "new"}, readTree(t, dir))

	dir = t.TempDir()
	writeTree(t, dir, map[string]string{"d": "-> " + outside})
	_, err = s.Export(t.Context(), m, nil, dir, true)
	require.Error(t, err, "a link must not lead out")
	require.Empty(t, readTree(t, outside))
}

// TestATreeIsFilledOnAnotherHost: what one host collects, another one fills a directory with, from few objects.
func TestATreeIsFilledOnAnotherHost(t *testing.T) {
	t.Parallel()
	const dirs, files = 60, 50
	bucket, from, to := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "tree")
	for i := range dirs {
		dir := filepath.Join(from, fmt.Sprintf("a%d/b/c%d", i%7, i))
		require.NoError(t, os.MkdirAll(dir, 0o755))
		for n := range files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), fmt.Append(nil, "file ", i, n), 0o600))
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(from, "large"), storagetest.Random(1<<20), 0o600))
	host := storagetest.Hosts(t, &storagetest.Clock{}, "file://"+bucket, 0)
	one, other := cas.New(host(), cas.Options{}), cas.New(host(), cas.Options{})
	out, err := one.Collect(t.Context(), session.Collect{Dir: from})
	require.NoError(t, err)
	objects, err := filepath.Glob(filepath.Join(bucket, "content/*/*"))
	require.NoError(t, err)
	require.Len(t, objects, 4, "whose they are, the large file, the delta, and all other files and directories")

	require.NoError(t, other.Intact(t.Context(), out.Output))
	require.NoError(t, other.Materialise(t.Context(), out.Output, to))
	require.NoError(t, os.Rename(bucket, bucket+"-away"))
	require.NoError(t, other.Materialise(t.Context(), out.Output, to), "all is on this host by now")
	_, err = other.Collect(t.Context(), session.Collect{Base: out.Output, Dir: to})
	require.Error(t, err, "the bucket is away")
	require.NotErrorIs(t, err, session.ErrNotFound, "which is an outage")
	require.NoError(t, os.Rename(bucket+"-away", bucket))
	again, err := other.Collect(t.Context(), session.Collect{Base: out.Output, Dir: to})
	require.NoError(t, err)
	require.Equal(t, out.Output, again.Output)
}
