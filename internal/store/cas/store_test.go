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
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// content is what a directory has, with the index of the same host.
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
	return &content{cas.New(blobs, cas.Options{Limits: limits, StoreDir: dir, StampsDir: filepath.Join(dir, "stamps")}), dir}
}

// newStore makes content that ends with the test.
func newStore(t testing.TB) *content {
	t.Helper()
	return open(t, t.TempDir(), cas.Limits{})
}

// writeTree writes files by path below dir. A content of "-> target" makes a link,
// and one that starts with "#!" an executable.
func writeTree(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for p, content := range files {
		path := filepath.Join(dir, p)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if len(content) > 3 && content[:3] == "-> " {
			require.NoError(t, os.Symlink(content[3:], path))
			continue
		}
		mode := os.FileMode(0o644)
		if len(content) > 2 && content[:2] == "#!" {
			mode = 0o755
		}
		require.NoError(t, os.WriteFile(path, []byte(content), mode))
	}
}

// readTree is the reverse of writeTree; modes other than 0644 and 0755 fail.
func readTree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		if d.Type()&os.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			out[rel] = "-> " + target
			return err
		}
		data, err := os.ReadFile(path)
		out[rel] = string(data)
		return err
	}))
	return out
}

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
