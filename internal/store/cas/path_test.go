package cas_test

import (
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store/cas"
)

func TestCheckPath(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 255)
	for _, p := range []string{"a", "a/b", "a b/ü", ".env", "..a", "a..", "a/.gitignore", ".github/x", long, long + "/" + long +
		"/" + long + "/" + long[:253]} {
		require.NoError(t, cas.CheckPath(p), p)
	}
	for _, p := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/.", "a/./b", "../a", "a/..", "a/../b",
		"a\x00b", "a\nb", "a\x7f", "a\u0085b", "a\xffb", ".git", "a/.git/hooks/x", ".GIT/config", "a/.Git", long + "a",
		long + "/" + long + "/" + long + "/" + long + "/a",
	} {
		require.Error(t, cas.CheckPath(p), p)
	}
}

func TestCheckLink(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a -> b", "a -> b/c", "d/a -> ../b", "d/e/a -> ../../b/./c/", "d/a -> .."} {
		path, target, _ := strings.Cut(good, " -> ")
		require.NoError(t, cas.CheckLink(path, target), good)
	}
	for _, bad := range []string{
		"a -> ", "a -> /etc/passwd", "a -> ..", "a -> ../b", "d/a -> ../../b", "a -> b/..", "d/a -> ../../..", "a -> b\x00",
		"a -> b\xff", "a -> " + strings.Repeat("b/", 600),
	} {
		path, target, _ := strings.Cut(bad, " -> ")
		require.Error(t, cas.CheckLink(path, target), bad)
	}
}

func FuzzPath(f *testing.F) {
	for _, seed := range []string{"a/b", "../x", "/x", "a//b", ".git", "a\x00", "ü/\xff"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, p, target string) {
		if cas.CheckPath(p) == nil {
			require.True(t, filepath.IsLocal(p) && path.Clean(p) == p && utf8.ValidString(p) && len(p) <= cas.MaxPath, "%q", p)
		}
		if cas.CheckPath(p) == nil && cas.CheckLink(p, target) == nil {
			to := path.Join("/top", path.Dir(p), target)
			require.True(t, to == "/top" || strings.HasPrefix(to, "/top/"), "%q -> %q", p, target)
		}
	})
}
