package cas_test

import (
	"os"
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
