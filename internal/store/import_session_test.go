package store_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store"
)

// archive exports a session.
func archive(t testing.TB, s *store.Store, key session.Key, transcripts bool) []byte {
	t.Helper()
	var buf bytes.Buffer
	out, err := s.ExportSession(t.Context(), key, transcripts, &buf)
	require.NoError(t, err)
	require.Equal(t, key.Session, out.Session)
	require.Positive(t, out.Bytes)
	return buf.Bytes()
}

// entry is a file in an archive.
type entry struct {
	name string
	kind byte
	data []byte
}

// blob is where a blob lies in an archive.
func blob(name string) string { return "blobs/sha256/" + name[:2] + "/" + name[2:] }

// unpacked lists the files of an archive.
func unpacked(t testing.TB, data []byte) []entry {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	var out []entry
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		out = append(out, entry{h.Name, h.Typeflag, content})
	}
}

// packed is the reverse of unpacked.
func packed(t testing.TB, entries []entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	zip := gzip.NewWriter(&buf)
	w := tar.NewWriter(zip)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Size: int64(len(e.data)), Mode: 0o600}
		if e.kind == tar.TypeSymlink {
			h.Linkname, h.Size = "/etc/passwd", 0
		}
		require.NoError(t, w.WriteHeader(h))
		if h.Size > 0 {
			_, err := w.Write(e.data)
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	require.NoError(t, zip.Close())
	return buf.Bytes()
}

func TestAnArchiveGoesRound(t *testing.T) {
	t.Parallel()
	from, to := newStore(t), newStore(t)
	busySession(t, from, webSession)
	data := archive(t, from, webSession, true)
	require.Equal(t, data, archive(t, from, webSession, true), "equal sessions have equal archives")

	in, err := to.ImportSession(t.Context(), bytes.NewReader(data), "elsewhere", "")
	require.NoError(t, err)
	require.Equal(t, 5, in.Checkpoints)
	require.Equal(t, 4, in.Records)
	sound(t, to)
	key := session.Key{Namespace: "elsewhere", Session: webSession.Session}
	want, err := from.Checkpoints(t.Context(), webSession)
	require.NoError(t, err)
	got, err := to.Checkpoints(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, want, got, "the chain is the same, byte for byte")
	records, err := to.State.Records(t.Context(), key)
	require.NoError(t, err)
	before, err := from.State.Records(t.Context(), webSession)
	require.NoError(t, err)
	require.Equal(t, before, records)
	e, err := to.State.Execution(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, "elsewhere", e.Namespace)
	require.Equal(t, got[0].Name, e.Checkpoint)
	require.Equal(t, session.Failed, e.Status.Status, "nothing runs it")
	require.Contains(t, e.Reason, "maestro resume web-1")

	_, err = to.ImportSession(t.Context(), bytes.NewReader(data), "elsewhere", "")
	require.ErrorIs(t, err, store.ErrSessionExists)
}

func TestTranscriptsAreLeftOutUnlessAsked(t *testing.T) {
	t.Parallel()
	from, to := newStore(t), newStore(t)
	busySession(t, from, webSession)
	data := archive(t, from, webSession, false)
	for _, e := range unpacked(t, data) {
		require.NotContains(t, string(e.data), "log of")
	}
	_, err := to.ImportSession(t.Context(), bytes.NewReader(data), "default", "")
	require.NoError(t, err)
	sound(t, to)
}

func TestAPrunedSessionCanBeExported(t *testing.T) {
	t.Parallel()
	model, to := newStore(t), newStore(t)
	closed(t, model, webSession)
	s := later(t, model, tenDays)
	pruned(t, s, session.PruneOptions{Keep: 2})
	_, err := to.ImportSession(t.Context(), bytes.NewReader(archive(t, s, webSession, true)), "default", "new")
	require.NoError(t, err)
	sound(t, to)
	e, err := to.State.Execution(t.Context(), session.Key{Namespace: "default", Session: "new"})
	require.NoError(t, err)
	require.Equal(t, session.Completed, e.Status.Status)
}

func TestADamagedSessionIsNotExported(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	names := chain(t, s, webSession)
	c, err := s.Checkpoint(t.Context(), names[1])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(blobPath(s, c.Tree), []byte("wrong"), 0o600))
	_, err = s.ExportSession(t.Context(), webSession, true, io.Discard)
	require.ErrorIs(t, err, session.ErrCorrupt)
}

// empty requires that nothing of a session is in the store.
func empty(t *testing.T, s *store.Store, what string) {
	t.Helper()
	rows, err := s.State.Standings(t.Context())
	require.NoError(t, err)
	require.Empty(t, rows, what)
	left, err := filepath.Glob(filepath.Join(s.Dir(), "tmp", "*"))
	require.NoError(t, err)
	require.Empty(t, left, what)
}

func TestAnArchiveThatWasTamperedWithIsRefused(t *testing.T) {
	t.Parallel()
	from := newStore(t)
	busySession(t, from, webSession)
	whole := unpacked(t, archive(t, from, webSession, true))
	last := len(whole) - 1
	and := func(name string, kind byte) func([]entry) []entry {
		return func(e []entry) []entry { return append(e, entry{name, kind, []byte("x")}) }
	}
	const strange = "no file of such an archive"
	for name, c := range map[string]struct {
		change func(e []entry) []entry
		says   string
	}{
		"nothing":              {func([]entry) []entry { return nil }, "it has no rows.json"},
		"a missing blob":       {func(e []entry) []entry { return e[:last] }, "no such blob"},
		"missing rows":         {func(e []entry) []entry { return e[1:] }, "it has no rows.json"},
		"a blob twice":         {func(e []entry) []entry { return append(e, e[last]) }, "twice"},
		"a strange file":       {and("../../x", tar.TypeReg), strange},
		"a strange blob":       {and("blobs/sha256/../x", tar.TypeReg), strange},
		"a file of the mirror": {and("sessions/default/web-2/execution_state.json", tar.TypeReg), strange},
		"a link":               {and("blobs/x", tar.TypeSymlink), "no plain file"},
		"another blob's text": {func(e []entry) []entry {
			e[last].data = bytes.Repeat([]byte("x"), len(e[last].data))
			return e
		}, "content does not match its name"},
		"other calls": {func(e []entry) []entry {
			e[0].data = bytes.Replace(e[0].data, []byte("coder"), []byte("coser"), 1)
			return e
		}, "its sha256 does not match its content"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := newStore(t)
			entries := slices.Clone(whole)
			for i := range entries {
				entries[i].data = bytes.Clone(entries[i].data)
			}
			_, err := to.ImportSession(t.Context(), bytes.NewReader(packed(t, c.change(entries))), "default", "")
			var fault *store.ArchiveError
			require.ErrorAs(t, err, &fault)
			require.ErrorContains(t, err, c.says)
			empty(t, to, name)
		})
	}
	to := newStore(t)
	for _, bad := range []string{"..", "a/b", "-x"} {
		_, err := to.ImportSession(t.Context(), bytes.NewReader(packed(t, whole)), "default", bad)
		require.Error(t, err)
	}
	data := packed(t, whole)
	for damaged, says := range map[string]string{"{}": "it is no archive", string(data[:len(data)/2]): "cut short", string(data) +
		"more": "damaged"} {
		_, err := to.ImportSession(t.Context(), strings.NewReader(damaged), "default", "")
		require.ErrorContains(t, err, says)
		empty(t, to, says)
	}
}

// FuzzImportSession holds the import against archives that are well made, but of
// documents and blobs that somebody has written: none may crash it, leave half a
// session, or one with a fault.
func FuzzImportSession(f *testing.F) {
	from, err := store.Create(filepath.Join(f.TempDir(), "from"), options())
	require.NoError(f, err)
	busySession(f, from, webSession)
	whole := unpacked(f, archive(f, from, webSession, true))
	for i, e := range whole {
		f.Add(byte(i), e.data)
	}
	to, err := store.Create(filepath.Join(f.TempDir(), "to"), options())
	require.NoError(f, err)
	var imports atomic.Int64
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		entries := slices.Clone(whole)
		e := &entries[int(which)%len(entries)]
		e.data = data
		var fields map[string]any
		if json.Unmarshal(data, &fields) == nil && fields != nil {
			delete(fields, "sha256")
			if sealed, err := store.EncodeDigested(fields); err == nil {
				e.data = sealed
			}
		}
		rename(t, entries, int(which)%len(entries))
		key := session.Key{Namespace: "default", Session: fmt.Sprintf("s%d", imports.Add(1))}
		if _, err := to.ImportSession(t.Context(), bytes.NewReader(packed(t, entries)), key.Namespace, key.Session); err != nil {
			_, err = to.State.Standing(t.Context(), key)
			require.ErrorIs(t, err, session.ErrNotFound)
			return
		}
		report, err := to.VerifySession(t.Context(), key)
		require.NoError(t, err)
		require.Empty(t, report.Faults)
	})
}

// rename gives a changed blob its new name, also in the rows. Where other blobs name it, they still do by the old one.
func rename(t *testing.T, entries []entry, changed int) {
	t.Helper()
	old, ok := strings.CutPrefix(entries[changed].name, "blobs/sha256/")
	if !ok {
		return
	}
	name := string(sha(entries[changed].data))
	entries[changed].name = blob(name)
	var rows map[string]any
	from := json.NewDecoder(bytes.NewReader(bytes.ReplaceAll(entries[0].data, []byte(strings.Replace(old, "/", "", 1)),
		[]byte(name))))
	from.UseNumber()
	require.NoError(t, from.Decode(&rows))
	delete(rows, "sha256")
	var err error
	entries[0].data, err = store.EncodeDigested(rows)
	require.NoError(t, err)
}

// document reads a document of an archive, whose numbers stay as they are.
func document(t *testing.T, e entry) (fields map[string]any) {
	t.Helper()
	from := json.NewDecoder(bytes.NewReader(e.data))
	from.UseNumber()
	require.NoError(t, from.Decode(&fields))
	return fields
}

func TestAnArchiveOfHostileDocumentsIsRefused(t *testing.T) {
	t.Parallel()
	from := newStore(t)
	names := chain(t, from, webSession)
	whole := unpacked(t, archive(t, from, webSession, true))
	head := blob(string(names[len(names)-1]))
	for name, c := range map[string]struct {
		entry, path string
		value       any
		says        string
	}{
		"a phase that leaves":        {head, "current_phase", "../../x", "current_phase"},
		"another schema":             {head, "schema", "x", "schema"},
		"a missing tree":             {head, "tree", strings.Repeat("ab", 32), "no such blob"},
		"a name that is no digest":   {head, "tree", "../../etc/passwd", "blob's name"},
		"rows of another schema":     {"rows.json", "schema", "x", "no rows"},
		"rows of a path":             {"rows.json", "session", map[string]any{"namespace": "..", "session": ".."}, "no rows"},
		"no checkpoint":              {"rows.json", "rows checkpoints", []any{}, "no checkpoint"},
		"a round of a missing delta": {"rows.json", "rows rounds 0 delta", strings.Repeat("cd", 32), "no such blob"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := newStore(t)
			entries := slices.Clone(whole)
			at := slices.IndexFunc(entries, func(e entry) bool { return e.name == c.entry })
			require.NotEqual(t, -1, at)
			fields := document(t, entries[at])
			path := strings.Fields(c.path)
			in := fields
			for _, step := range path[:len(path)-1] {
				if list, ok := in[step].([]any); ok {
					in = list[0].(map[string]any)
				} else if below, ok := in[step].(map[string]any); ok {
					in = below
				}
			}
			in[path[len(path)-1]] = c.value
			var err error
			entries[at].data, err = store.EncodeDigested(fields)
			require.NoError(t, err)
			rename(t, entries, at)
			_, err = to.ImportSession(t.Context(), bytes.NewReader(packed(t, entries)), "default", "")
			var fault *store.ArchiveError
			require.ErrorAs(t, err, &fault)
			require.ErrorContains(t, err, c.says)
			empty(t, to, name)
		})
	}
}

// TestADigestInATextOfAnArchive is no reference if the archive has no such blob, although the store has one.
func TestADigestInATextOfAnArchive(t *testing.T) {
	t.Parallel()
	from, to := newStore(t), newStore(t)
	chain(t, from, webSession)
	other := stored(t, to, []byte("only in the other store"))
	entries := unpacked(t, archive(t, from, webSession, true))
	fields := document(t, entries[0])
	delete(fields, "sha256")
	fields["rows"].(map[string]any)["runs"].([]any)[0].(map[string]any)["selection"] = `{"decisions":{"hash":"` + string(other) + `"}}`
	var err error
	entries[0].data, err = store.EncodeDigested(fields)
	require.NoError(t, err)
	_, err = to.ImportSession(t.Context(), bytes.NewReader(packed(t, entries)), "default", "")
	require.NoError(t, err)
}
