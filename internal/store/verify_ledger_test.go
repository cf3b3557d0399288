package store_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

// worked adds a call whose tools wrote a file: what they did names the blob of a
// tree, which names that of the file.
func worked(t testing.TB, s *store.Store, key session.Key, id spec.AssignmentID) (tree spec.Digest) {
	t.Helper()
	tree = snapshot(t, s, map[string]string{"half.go": "package half of " + key.Session})
	doc, err := s.Content.PutBlob(t.Context(), fmt.Appendf(nil, `{"tree":%q,"commit":%q}`, tree, strings.Repeat("ab", 32)))
	require.NoError(t, err)
	j, err := s.Journal(key, id)
	require.NoError(t, err)
	call := j.Next()
	for _, e := range []budget.Entry{begun(call, 9), settled(call+1, call, ""), {Seq: call + 2, Kind: budget.Tools, Call: call, Tools: doc}} {
		require.NoError(t, j.Apply(e))
		require.NoError(t, s.AppendEntry(key, id, e))
	}
	book(t, s, key, id, j)
	return tree
}

func TestPruningKeepsWhatJournalsName(t *testing.T) {
	t.Parallel()
	model := newStore(t)
	closed(t, model, webSession)
	j := journaled(t, model, webSession, id("ann"), 2)
	tree := worked(t, model, webSession, id("ann"))
	_, err := model.Content.PutBlob(t.Context(), []byte("nobody needs this"))
	require.NoError(t, err)
	s := later(t, model, tenDays)
	report, err := s.Prune(t.Context(), session.PruneOptions{Keep: 2})
	require.NoError(t, err)
	require.Equal(t, 3, report.Blobs, "two checkpoints, and what nobody needs")
	sound(t, s)
	for _, c := range j.Calls() {
		for _, name := range []spec.Digest{c.Answer, c.Tools} {
			_, err := s.Content.Blob(t.Context(), name)
			require.NoError(t, err)
		}
	}
	require.NoError(t, s.Content.Materialise(t.Context(), tree, filepath.Join(t.TempDir(), "tree")))

	require.NoError(t, os.RemoveAll(filepath.Join(s.Dir(), "sessions", "default", webSession.Session)))
	report, err = s.Prune(t.Context(), session.PruneOptions{})
	require.NoError(t, err)
	require.Positive(t, report.Blobs)
	for _, path := range kept(t, s) {
		require.Fail(t, "with the session goes all that it named", path)
	}
}

func TestALostLedgerKeepsNobodyFromPruning(t *testing.T) {
	t.Parallel()
	model := newStore(t)
	closed(t, model, webSession)
	journaled(t, model, webSession, id("ann"), 2)
	s := later(t, model, tenDays)
	require.NoError(t, os.Remove(ledgerPath(s)))
	_, err := s.Prune(t.Context(), session.PruneOptions{})
	require.NoError(t, err, "the journals have all of it")
}

func TestWhatWasPaidIsExported(t *testing.T) {
	t.Parallel()
	from := newStore(t)
	busySession(t, from, webSession)
	tree := worked(t, from, webSession, id("ann"))
	want, err := from.Ledger(webSession)
	require.NoError(t, err)
	for _, transcripts := range []bool{true, false} {
		to := newStore(t)
		_, err := to.ImportSession(t.Context(), bytes.NewReader(archive(t, from, webSession, transcripts)), "default", "again")
		require.NoError(t, err)
		again := session.Key{Namespace: "default", Session: "again"}
		got, err := to.Ledger(again)
		require.NoError(t, err)
		require.Equal(t, want, got)
		for _, id := range []spec.AssignmentID{id("ann"), {Phase: "deploy", Persona: "bob"}} {
			before, err := from.Journal(webSession, id)
			require.NoError(t, err)
			after, err := to.Journal(again, id)
			require.NoError(t, err)
			require.Equal(t, before.Row(nil), after.Row(nil))
			require.Equal(t, transcripts, slices.Equal(before.Calls(), after.Calls()))
		}
		err = to.Content.Materialise(t.Context(), tree, filepath.Join(t.TempDir(), "tree"))
		if transcripts {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, session.ErrNotFound, "what the turns brought was not asked for")
		}
		sound(t, to)
	}
}

func TestAnArchiveOfHostileJournalsIsRefused(t *testing.T) {
	t.Parallel()
	from := newStore(t)
	chain(t, from, webSession)
	journaled(t, from, webSession, id("ann"), 2)
	whole := unpacked(t, archive(t, from, webSession, true))
	const journal = documents + "assignments/build.ann.calls.jsonl"
	sound := entryOf(whole, journal)
	lines := bytes.SplitAfter(sound, []byte("\n"))
	for name, c := range map[string]struct {
		name, says string
		data       []byte
	}{
		"a changed line":   {journal, "line 1", bytes.Replace(sound, []byte("writer"), []byte("winter"), 1)},
		"a line left out":  {journal, "line 1: it is entry 2 and not 1", bytes.Join(lines[1:], nil)},
		"the last ones":    {journal, "booked", bytes.Join(lines[:3], nil)},
		"half a line":      {journal, "booked", sound[:len(sound)-1]},
		"a changed ledger": {documents + "ledger.json", "does not match", bytes.Replace(entryOf(whole, documents+"ledger.json"), []byte("writer"), []byte("winter"), 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := newStore(t)
			entries := slices.Clone(whole)
			i := slices.IndexFunc(entries, func(e entry) bool { return e.name == c.name })
			entries[i].data = c.data
			_, err := to.ImportSession(t.Context(), bytes.NewReader(packed(t, entries)), "default", "")
			var fault *store.ArchiveError
			require.ErrorAs(t, err, &fault)
			require.ErrorContains(t, err, c.says)
			empty(t, to, name)
		})
	}
}

func entryOf(entries []entry, name string) []byte {
	return entries[slices.IndexFunc(entries, func(e entry) bool { return e.name == name })].data
}
