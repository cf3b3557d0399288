package cas_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/cas/castest"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// tester is a test or a property.
type tester interface {
	require.TestingT
	Context() context.Context
}

// putText stores a blob and returns the entry of a file with that content.
func putText(t tester, s *content, text string) cas.Entry {
	_, err := s.PutBlob(t.Context(), []byte(text))
	require.NoError(t, err)
	return file(text)
}

func putManifest(t tester, s *content, m cas.Manifest) spec.Digest {
	name, err := s.PutManifest(t.Context(), m)
	require.NoError(t, err)
	return name
}

func manifest(t tester, s *content, name spec.Digest) cas.Manifest {
	m, err := s.Manifest(t.Context(), name)
	require.NoError(t, err)
	return m
}

// entries draws a tree: few names, so that trees have much in common.
func entries(t *rapid.T) cas.Manifest {
	m := cas.Manifest{}
	for p, text := range castest.Tree(t) {
		m[p] = file(text)
	}
	return m
}

// A tree that is made by changes has the digest of the same tree made at once, and a difference
// is that of a comparison of everything.
func TestATreeMadeByChangesIsTheSameTree(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	rapid.Check(t, func(t *rapid.T) {
		base, target := entries(t), entries(t)
		if rapid.Bool().Draw(t, "little") { // a small change of the same tree
			target = maps.Clone(base)
			for _, p := range rapid.SliceOfN(castest.Path, 1, 3).Draw(t, "changed") {
				if cas.CheckPath(p) == nil {
					target = castest.Apply(target, cas.Delta{p: {Entry: file("new")}})
				}
			}
		}
		from, to := putManifest(t, s, base), putManifest(t, s, target)
		require.Equal(t, base, manifest(t, s, from))

		want := castest.Diff(base, target)
		a, err := s.Tree(t.Context(), from)
		require.NoError(t, err)
		b, err := s.Tree(t.Context(), to)
		require.NoError(t, err)
		d, err := cas.Diff(t.Context(), a, b)
		require.NoError(t, err)
		require.Equal(t, want, d)
		require.Equal(t, len(target), b.Files())

		delta, err := s.PutDelta(t.Context(), d)
		require.NoError(t, err)
		folded, err := s.Fold(t.Context(), from, []session.Step{{By: id("a"), Work: session.Work{Delta: delta}}})
		require.NoError(t, err)
		require.Equal(t, to, folded.Manifest)
		laid, err := s.Overlay(t.Context(), from, to)
		require.NoError(t, err)
		over := cas.Delta{}
		for p, e := range target {
			over[p] = cas.Change{Entry: e}
		}
		require.Equal(t, castest.Apply(base, over), manifest(t, s, laid.Output))
		for _, p := range rapid.SliceOfN(castest.Path, 1, 5).Draw(t, "paths") {
			e, ok, err := b.Get(t.Context(), p)
			require.NoError(t, err)
			had, has := target[p]
			require.Equal(t, has, ok)
			require.Equal(t, had, e)
		}
	})
}

// stored is what the blobs of a store take up, in bytes.
func stored(t *testing.T, s *content) (bytes int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join(s.dir, "blobs"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			info, err := d.Info()
			require.NoError(t, err)
			bytes += info.Size()
		}
		return err
	}))
	return bytes
}

// A change of a tree of 50,000 files costs kilobytes: the blobs of the directories above it.
func TestAChangeOfALargeTreeCostsKilobytes(t *testing.T) {
	t.Parallel()
	s, m := newStore(t), cas.Manifest{}
	e := putText(t, s, "x")
	for i := range 50_000 {
		m[fmt.Sprintf("%d/%d/%d/%d", i/2500, i/50%50, i/10%5, i)] = e
	}
	base := putManifest(t, s, m)
	before := stored(t, s)
	p := slices.Sorted(maps.Keys(m))[777] + "a"
	delta, err := s.PutDelta(t.Context(), cas.Delta{p: {Entry: e}})
	require.NoError(t, err)
	folded, err := s.Fold(t.Context(), base, []session.Step{{By: id("a"), Work: session.Work{Delta: delta}}})
	require.NoError(t, err)
	require.Less(t, stored(t, s)-before, int64(100_000))
	before = stored(t, s)
	m[p] = e
	require.Equal(t, folded.Manifest, putManifest(t, s, m))
	require.Equal(t, before, stored(t, s))
}

// damage changes a blob, and returns its file.
func damage(t *testing.T, s *content, name spec.Digest) string {
	t.Helper()
	path := filepath.Join(s.Dir(), filepath.FromSlash(storage.BlobKey(name)))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[len(data)-2]++
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// A damaged directory is named by its path, and is no obstacle where it is not needed. Storing
// the tree again repairs it.
func TestADamagedDirectoryIsNamed(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	e := putText(t, s, "x")
	m := cas.Manifest{"a/b/f": e, "c/f": e, "f": e}
	base := putManifest(t, s, m)
	damage(t, s, sha([]byte("maestro.tree/v1\ndir\t"+string(sha([]byte("maestro.tree/v1\nfile\t"+string(e.SHA256)+"\t1\tf\n")))+
		"\t1\t1\tb\n")))
	delta, err := s.PutDelta(t.Context(), cas.Delta{"c/g": {Entry: e}})
	require.NoError(t, err)
	_, err = s.Fold(t.Context(), base, []session.Step{{By: id("a"), Work: session.Work{Delta: delta}}})
	require.NoError(t, err, "it does not change a")
	_, err = s.Manifest(t.Context(), base)
	require.ErrorIs(t, err, session.ErrCorrupt)
	require.ErrorContains(t, err, `read directory "a" of a tree`)
	require.ErrorContains(t, err, "moved to damaged/")
	_, err = s.Manifest(t.Context(), base)
	require.ErrorIs(t, err, session.ErrNotFound)
	require.Equal(t, base, putManifest(t, s, m))
	require.Equal(t, m, manifest(t, s, base))
}

func TestDocumentsThatAreNoTrees(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	const head = "maestro.tree/v1\n"
	digest := string(sha([]byte("x")))
	put := func(text string) string {
		name, err := s.PutBlob(t.Context(), []byte(text))
		require.NoError(t, err)
		return string(name)
	}
	one := put(head + "file\t" + digest + "\t1\tf\n")
	up := put(head + "link\t../../f\tl\n")
	nested := one
	for range 600 {
		nested = put(head + "dir\t" + nested + "\t1\t1\tdd\n")
	}
	bomb, n := one, 1
	for range 20 {
		bomb, n = put(fmt.Sprintf("%sdir\t%s\t%d\t%d\ta\ndir\t%s\t%d\t%d\tb\n", head, bomb, n, n, bomb, n, n)), n*2
	}
	for name, text := range map[string]string{
		"nothing":         "",
		"another schema":  "maestro.tree/v2\n",
		"no end":          head + "link\tf\tl",
		"empty line":      head + "\n",
		"unknown kind":    head + "pipe\tf\tl\n",
		"no name":         head + "link\tf\t\n",
		"a path":          head + "link\tf\ta/b\n",
		"up":              head + "link\tf\t..\n",
		"git's":           head + "link\tf\t.git\n",
		"link out":        head + "link\t../f\tl\n",
		"not sorted":      head + "link\tf\tb\nlink\tf\ta\n",
		"twice":           head + "link\tf\ta\nlink\tf\ta\n",
		"no digest":       head + "file\tabc\t1\tf\n",
		"a size too much": head + "file\t" + digest + "\t9223372036854775807\tf\n",
		"another 1":       head + "file\t" + digest + "\t01\tf\n",
		"a negative size": head + "file\t" + digest + "\t-1\tf\n",
		"nothing in it":   head + "dir\t" + digest + "\t0\t0\td\n",
		"more than it is": head + "dir\t" + one + "\t2\t1\td\n",
		"absent":          head + "dir\t" + digest + "\t1\t1\td\n",
		"no directory":    head + "dir\t" + put("x") + "\t1\t1\td\n",
		"out from below":  head + "dir\t" + up + "\t1\t0\td\n",
		"too deep":        head + "dir\t" + nested + "\t1\t1\td\n",
		"too much":        fmt.Sprintf("%sdir\t%s\t%d\t%d\ta\ndir\t%s\t9999999\t1\tb\n", head, bomb, n, n, bomb),
	} {
		_, err := s.Manifest(t.Context(), spec.Digest(put(text)))
		require.ErrorIs(t, err, session.ErrNotFound, name)
	}
}
