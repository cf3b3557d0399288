package cas_test

import (
	"math/rand/v2"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store/cas"
)

func file(content string) cas.Entry {
	return cas.Entry{SHA256: sha([]byte(content)), Size: int64(len(content))}
}

func TestManifestsThatNoDirectoryCanHold(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ok := file("x")
	for name, m := range map[string]cas.Manifest{
		"file under file":     {"a": ok, "a/b": ok},
		"far under file":      {"a": ok, "a/b/c": ok, "a.b": ok},
		"link under file":     {"a": {Link: "b"}, "a/b": ok},
		"up":                  {"../a": ok},
		"absolute":            {"/a": ok},
		"git's":               {".git/config": ok},
		"neither":             {"a": {}},
		"both":                {"a": {SHA256: ok.SHA256, Link: "b"}},
		"no digest":           {"a": {SHA256: "abc"}},
		"upper-case digest":   {"a": {SHA256: ok.SHA256[:63] + "A"}},
		"negative":            {"a": {SHA256: ok.SHA256, Size: -1}},
		"executable link":     {"a": {Link: "b", Executable: true}},
		"link that leads out": {"a/b": {Link: "../../c"}},
	} {
		_, err := s.PutManifest(t.Context(), m)
		require.Error(t, err, name)
		d := cas.Delta{}
		for p, e := range m {
			d[p] = cas.Change{Entry: e}
		}
		_, err = cas.EncodeDelta(d)
		require.Error(t, err, name)
	}
	_, err := cas.EncodeDelta(cas.Delta{"a": {Deleted: true, Entry: ok}})
	require.Error(t, err)
	_, err = cas.EncodeDelta(cas.Delta{"..": {Deleted: true}})
	require.Error(t, err)
}

func TestDocumentsThatAreNoDeltas(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, `null`, `[]`, `{}`, `{"changes":{}}`, `{"changes":null,"schema":"maestro.delta/v1"}`,
		`{"changes":{},"schema":"maestro.tree/v1"}`, `{"changes":{},"schema":"maestro.delta/v1"} x`,
		`{"changes":{},"schema":"maestro.delta/v1","more":1}`, `{"changes":{"a":{}},"schema":"maestro.delta/v1"}`,
	} {
		_, err := cas.DecodeDelta([]byte(text))
		require.Error(t, err, text)
	}
}

func randomPath(r *rand.Rand) string {
	parts := make([]string, 1+r.IntN(3))
	for i := range parts {
		parts[i] = string(rune('a' + r.IntN(3)))
	}
	return strings.Join(parts, "/")
}

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
