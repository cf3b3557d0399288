package cas_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/cas/castest"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// content is what a directory has.
type content struct {
	*cas.Store
	dir string
}

// Dir is the directory.
func (c *content) Dir() string { return c.dir }

// open opens the content of a directory, which it makes.
func open(t testing.TB, dir string, limits cas.Limits) *content {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	blobs, err := storage.NewDirectory(dir, time.Now)
	require.NoError(t, err)
	return &content{cas.New(blobs, cas.Options{Limits: limits, StoreDir: dir}), dir}
}

// newStore makes content that ends with the test.
func newStore(t testing.TB) *content {
	t.Helper()
	return open(t, t.TempDir(), cas.Limits{})
}

var writeTree, readTree = castest.WriteTree, castest.ReadTree

// snapped and collected are what a snapshot and a collection find.
func snapped(t testing.TB, s *content, dir string, o cas.SnapshotOptions) cas.Snapshot {
	t.Helper()
	snap, err := s.Snapshot(t.Context(), dir, o)
	require.NoError(t, err)
	return snap
}

func collected(t tester, s *content, req session.Collect) session.Collected {
	out, err := s.Collect(t.Context(), req)
	require.NoError(t, err)
	return out
}

// snapshot stores a tree given by its files.
func snapshot(t testing.TB, s *content, files map[string]string) spec.Digest {
	t.Helper()
	dir := t.TempDir()
	writeTree(t, dir, files)
	return snapped(t, s, dir, cas.SnapshotOptions{}).Manifest
}

func blobPath(s *content, name spec.Digest) string {
	return filepath.Join(s.Dir(), "blobs", "sha256", string(name[:2]), string(name[2:]))
}

func sha(data []byte) spec.Digest {
	sum := sha256.Sum256(data)
	return spec.Digest(hex.EncodeToString(sum[:]))
}

func TestBlobsThatAreNotThere(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, name := range []spec.Digest{"", "../../etc/passwd", "ABC", sha([]byte("absent"))} {
		_, err := s.Blob(t.Context(), name)
		require.ErrorIs(t, err, session.ErrNotFound, name)
	}
}

// TestProtectedFilesStayAsTheyWere changes, removes, adds and replaces protected files.
func TestProtectedFilesStayAsTheyWere(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	dir := t.TempDir()
	put := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	empty, err := s.PutManifest(t.Context(), cas.Manifest{})
	require.NoError(t, err)
	for path, text := range map[string]string{
		"tests/a": "a", "tests/b": "b", "tests/deep/c": "c", "main": "1",
		".gitignore": "!target", "target/tests/a": "a",
	} {
		put(path, text)
	}
	before := collected(t, s, session.Collect{Base: empty, Dir: dir})
	put("tests/a", "changed")
	put("tests/new", "new")
	put("target/tests/a", "changed")
	put("main", "2")
	require.NoError(t, os.Remove(filepath.Join(dir, "tests/b")))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "tests/deep")))
	put("tests/deep", "a file in place of a directory")
	after, err := s.Collect(t.Context(), session.Collect{
		Base: before.Output, Dir: dir,
		Protected: []string{"tests/**", "**/tests/a"},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"main"}, after.Changed)
	require.Empty(t, after.Deleted)
	require.Equal(t, []string{"target/tests/a", "tests/a", "tests/b", "tests/deep", "tests/deep/c", "tests/new"}, after.Protected)
}
