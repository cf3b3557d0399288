package cas_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/maestro-hive/maestro/internal/cas"
)

func file(content string) cas.Entry {
	return cas.Entry{SHA256: sha([]byte(content)), Size: int64(len(content))}
}

func TestAManifestIsWrittenInOneWay(t *testing.T) {
	t.Parallel()
	m := cas.Manifest{
		"b": file("b"), "a/x": {SHA256: sha([]byte("x")), Size: 1, Executable: true}, "l": {Link: "a/x"}, "<&>": file(""),
	}
	data, err := cas.EncodeManifest(m)
	require.NoError(t, err)
	require.Equal(t, `{"files":{"<&>":{"sha256":"`+string(sha(nil))+`"},"a/x":{"executable":true,"sha256":"`+string(sha([]byte("x")))+
		`","size":1},"b":{"sha256":"`+string(sha([]byte("b")))+`","size":1},"l":{"link":"a/x"}},"schema":"maestro.manifest/v1"}`, string(data))
	back, err := cas.DecodeManifest(data)
	require.NoError(t, err)
	require.Equal(t, m, back)

	d := cas.Delta{"b": {Entry: file("b")}, "gone": {Deleted: true}}
	data, err = cas.EncodeDelta(d)
	require.NoError(t, err)
	require.Equal(t, `{"changes":{"b":{"sha256":"`+string(sha([]byte("b")))+`","size":1},"gone":{"deleted":true}},"schema":"maestro.delta/v1"}`, string(data))
	again, err := cas.DecodeDelta(data)
	require.NoError(t, err)
	require.Equal(t, d, again)
}

// The documents are those of encoding/json, whatever the names.
func TestAManifestIsWrittenAsJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := cas.Manifest{}
		for _, p := range rapid.SliceOf(rapid.String()).Draw(t, "names") {
			e := cas.Entry{SHA256: sha([]byte(p)), Size: rapid.Int64Range(0, 99).Draw(t, "size"), Executable: rapid.Bool().Draw(t, "executable")}
			if rapid.Bool().Draw(t, "link") {
				e = cas.Entry{Link: p}
			}
			if one := (cas.Manifest{p: e}); one.Check() == nil {
				m[p] = e
			}
		}
		data, err := cas.EncodeManifest(m)
		if m.Check() != nil {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		require.NoError(t, enc.Encode(struct {
			Files  cas.Manifest `json:"files"`
			Schema string       `json:"schema"`
		}{m, cas.ManifestSchema}))
		require.Equal(t, strings.TrimSuffix(want.String(), "\n"), string(data))
	})
}

func TestManifestsThatNoDirectoryCanHold(t *testing.T) {
	t.Parallel()
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
		_, err := cas.EncodeManifest(m)
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

func TestDocumentsThatAreNoManifests(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, `null`, `[]`, `{}`, `{"files":{}}`, `{"files":null,"schema":"maestro.manifest/v1"}`,
		`{"files":{},"schema":"maestro.delta/v1"}`, `{"files":{},"schema":"maestro.manifest/v1"} x`,
		`{"files":{},"schema":"maestro.manifest/v1","more":1}`, `{"files":{"a":{"deleted":true}},"schema":"maestro.manifest/v1"}`,
	} {
		_, err := cas.DecodeManifest([]byte(text))
		require.Error(t, err, text)
		_, err = cas.DecodeDelta([]byte(text))
		require.Error(t, err, text)
	}
}

func TestApplyKeepsATreeThatADirectoryCanHold(t *testing.T) {
	t.Parallel()
	base := cas.Manifest{"a": file("1"), "d/x": file("2"), "d/y": file("3"), "e": file("4")}
	got := cas.Apply(base, cas.Delta{"a/b": {Entry: file("5")}, "d": {Entry: file("6")}, "e": {Deleted: true}, "none": {Deleted: true}})
	require.Equal(t, cas.Manifest{"a/b": file("5"), "d": file("6")}, got)
	require.Len(t, base, 4, "the base is left alone")
}

// randomTree makes a small tree with many chances to collide with another.
func randomTree(r *rand.Rand) cas.Manifest {
	m := cas.Manifest{}
	for range r.IntN(8) {
		p := randomPath(r)
		e := file(strings.Repeat("x", r.IntN(3)))
		e.Executable = r.IntN(4) == 0
		m = cas.Apply(m, cas.Delta{p: {Entry: e}})
	}
	return m
}

func randomPath(r *rand.Rand) string {
	parts := make([]string, 1+r.IntN(3))
	for i := range parts {
		parts[i] = string(rune('a' + r.IntN(3)))
	}
	return strings.Join(parts, "/")
}

func TestApplyUndoesDiff(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		a, b := randomTree(r), randomTree(r)
		require.NoError(t, b.Check())
		d := cas.Diff(a, b)
		require.NoError(t, d.Check())
		require.Equal(t, b, cas.Apply(a, d), "seed %d", seed)
		require.Empty(t, cas.Diff(b, b))
	}
}

func FuzzManifestDecode(f *testing.F) {
	good, err := cas.EncodeManifest(cas.Manifest{"a/b": file("x"), "l": {Link: "a"}})
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte(`{"files":{"../a":{"link":"b"}},"schema":"maestro.manifest/v1"}`))
	f.Add([]byte(`{"changes":{"a":{"deleted":true}},"schema":"maestro.delta/v1"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := cas.DecodeManifest(data); err == nil {
			require.NoError(t, m.Check())
			again, err := cas.EncodeManifest(m)
			require.NoError(t, err)
			back, err := cas.DecodeManifest(again)
			require.NoError(t, err)
			require.Equal(t, m, back)
		}
		if d, err := cas.DecodeDelta(data); err == nil {
			again, err := cas.EncodeDelta(d)
			require.NoError(t, err)
			back, err := cas.DecodeDelta(again)
			require.NoError(t, err)
			require.Equal(t, d, back)
		}
	})
}
