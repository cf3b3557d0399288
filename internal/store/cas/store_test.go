package cas_test

import (
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

// snapshot stores a tree given by its files.
func snapshot(t testing.TB, s *content, files map[string]string) spec.Digest {
	t.Helper()
	dir := t.TempDir()
	writeTree(t, dir, files)
	snap, err := s.Snapshot(t.Context(), dir, cas.SnapshotOptions{})
	require.NoError(t, err)
	return snap.Manifest
}

func TestATreeGoesRound(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	files := map[string]string{
		"README.md": "hello\n", "src/main.go": "package main\n", "bin/run.sh": "#!/bin/sh\n",
		"docs/latest": "-> ../README.md", "empty": "", "ünï/cödé": "x",
	}
	m := snapshot(t, s, files)
	dir := filepath.Join(t.TempDir(), "tree")
	writeTree(t, dir, map[string]string{"old/file": "gone", "README.md": "old", "src": "was a file"})
	require.NoError(t, s.Materialise(t.Context(), m, dir))
	require.Equal(t, files, readTree(t, dir))

	out, err := s.Collect(t.Context(), session.Collect{Base: m, Dir: dir})
	require.NoError(t, err)
	require.Empty(t, out.Changed)
	require.Empty(t, out.Deleted)
	require.Equal(t, m, out.Output)

	require.NoError(t, os.Remove(filepath.Join(dir, "empty")))
	writeTree(t, dir, map[string]string{"src/new.go": "package main\n", "README.md": "HELLO\n"})
	out, err = s.Collect(t.Context(), session.Collect{Base: m, Dir: dir})
	require.NoError(t, err)
	require.Equal(t, []string{"README.md", "src/new.go"}, out.Changed)
	require.Equal(t, []string{"empty"}, out.Deleted)

	require.NoError(t, s.Materialise(t.Context(), m, dir))
	require.Equal(t, files, readTree(t, dir))
	require.NoError(t, s.Materialise(t.Context(), out.Output, dir))
	delete(files, "empty")
	files["src/new.go"], files["README.md"] = "package main\n", "HELLO\n"
	require.Equal(t, files, readTree(t, dir))
}
