package store_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

func journalPath(s *store.Store, id spec.AssignmentID) string {
	return filepath.Join(s.Dir(), "sessions", webSession.Namespace, webSession.Session, "assignments", id.Phase+"."+id.Persona+".calls.jsonl")
}

// begun and settled are the entries of a call.
func begun(seq int64, turn int) budget.Entry {
	return budget.Entry{
		Seq: seq, Kind: budget.Begun, At: now, Agent: "writer", Model: "<m&m>", Run: "r1", Request: sha([]byte("request")),
		Key: &session.CallKey{Round: 1, Attempt: 1, Turn: turn}, Estimate: &cost.Usage{InputTokens: 100, CostUSD: 1_000_000_001},
	}
}

func settled(seq, call int64, answer spec.Digest) budget.Entry {
	return budget.Entry{
		Seq: seq, Kind: budget.Settled, At: now.Add(time.Second), Call: call, Answer: answer,
		Usage: &cost.Usage{InputTokens: 70, OutputTokens: 7, CostUSD: 900_000_000},
	}
}

// journaled writes a journal of some settled calls with their blobs, and the
// ledger that goes with it.
func journaled(t testing.TB, s *store.Store, key session.Key, id spec.AssignmentID, calls int) *budget.Journal {
	t.Helper()
	put := func(what string, n int) spec.Digest {
		name, err := s.Content.PutBlob(t.Context(), fmt.Appendf(nil, `{"%s log of":"%s %s","turn":%d}`, what, key, id, n))
		require.NoError(t, err)
		return name
	}
	j := &budget.Journal{}
	add := func(e budget.Entry) {
		require.NoError(t, j.Apply(e))
		require.NoError(t, s.AppendEntry(key, id, e))
	}
	for turn := range calls {
		call := j.Next()
		add(begun(call, turn+1))
		add(settled(j.Next(), call, put("answer", turn)))
		add(budget.Entry{Seq: j.Next(), Kind: budget.Tools, At: now, Call: call, Tools: put("tools", turn)})
	}
	book(t, s, key, id, j)
	return j
}

// book has the ledger say what the journal adds up to.
func book(t testing.TB, s *store.Store, key session.Key, id spec.AssignmentID, j *budget.Journal) {
	t.Helper()
	require.NoError(t, s.UpdateLedger(key, func(l *budget.Ledger) error {
		l.SetRow(id, j.Row(l.Row(id).Reserved), now)
		return nil
	}))
}

func TestAJournalGoesRound(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	empty, err := s.Journal(webSession, id("backend"))
	require.NoError(t, err)
	require.Empty(t, empty.Calls())
	require.EqualValues(t, 1, empty.Next())
	require.NoFileExists(t, journalPath(s, id("backend")), "reading makes nothing")

	want := journaled(t, s, webSession, id("backend"), 3)
	got, err := s.Journal(webSession, id("backend"))
	require.NoError(t, err)
	require.Equal(t, want.Calls(), got.Calls())
	require.Equal(t, want.Next(), got.Next())
	info, err := os.Stat(journalPath(s, id("backend")))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	data, err := os.ReadFile(journalPath(s, id("backend")))
	require.NoError(t, err)
	require.Equal(t, 9, bytes.Count(data, []byte("\n")), "an entry is a line")

	records, err := s.Records(t.Context(), webSession)
	require.NoError(t, err)
	require.Empty(t, records, "a journal is no record")
}

func TestATornLastLineIsCutOffByTheNextAppend(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	path := journalPath(s, id("backend"))
	whole := journaled(t, s, webSession, id("backend"), 2)
	sound, err := os.ReadFile(path)
	require.NoError(t, err)
	next := begun(whole.Next(), 3)
	require.NoError(t, s.AppendEntry(webSession, id("backend"), next))
	grown, err := os.ReadFile(path)
	require.NoError(t, err)
	for size := len(sound) + 1; size < len(grown); size++ {
		require.NoError(t, os.WriteFile(path, grown[:size], 0o600))
		got, err := s.Journal(webSession, id("backend"))
		require.NoError(t, err)
		require.Equal(t, whole.Calls(), got.Calls(), "cut to %d", size)
		require.NoError(t, s.AppendEntry(webSession, id("backend"), next))
		again, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, grown, again, "cut to %d", size)
	}
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("x"), 10_000), 0o600))
	require.NoError(t, s.AppendEntry(webSession, id("backend"), begun(1, 1)))
	again, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Less(t, len(again), 1000, "a file of one torn line starts anew")
	require.NoDirExists(t, filepath.Join(s.Dir(), "quarantine"), "no damage was reported")
}

func TestAnEntryThatIsThereIsNotWrittenTwice(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	journaled(t, s, webSession, id("backend"), 1)
	for range 3 {
		require.NoError(t, s.AppendEntry(webSession, id("backend"), begun(4, 2)), "an append whose outcome was not known is tried again")
	}
	j, err := s.Journal(webSession, id("backend"))
	require.NoError(t, err)
	require.Len(t, j.Calls(), 2)
	sound, err := os.ReadFile(journalPath(s, id("backend")))
	require.NoError(t, err)
	require.Equal(t, 4, bytes.Count(sound, []byte("\n")))
}

func TestADamagedLineIsSkippedAndKeptForInspection(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	path := journalPath(s, id("backend"))
	journaled(t, s, webSession, id("backend"), 3)
	sound, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(sound), "\n")
	damaged := strings.Join(lines[:3], "") + strings.Replace(lines[3], "writer", "writes", 1) + strings.Join(lines[4:], "")
	require.NoError(t, os.WriteFile(path, []byte(damaged), 0o600))
	for range 3 {
		j, err := s.Journal(webSession, id("backend"))
		require.NoError(t, err)
		require.Len(t, j.Calls(), 3)
		require.EqualValues(t, 3*77, j.Spent().Tokens(), "money counts though a beginning is lost")
		require.EqualValues(t, 10, j.Next(), "no number is given twice")
	}
	copies, err := filepath.Glob(filepath.Join(s.Dir(), "quarantine", "*"))
	require.NoError(t, err)
	require.Len(t, copies, 1, "however often it is read")
	kept, err := os.ReadFile(copies[0])
	require.NoError(t, err)
	require.Equal(t, damaged, string(kept))
	require.NoError(t, s.AppendEntry(webSession, id("backend"), begun(10, 4)))
	j, err := s.Journal(webSession, id("backend"))
	require.NoError(t, err)
	require.Len(t, j.Calls(), 4, "it goes on behind the damage")
}

func TestDamageOfAJournalShows(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	path := journalPath(s, id("backend"))
	want := journaled(t, s, webSession, id("backend"), 1)
	sound, err := os.ReadFile(path)
	require.NoError(t, err)
	someDamage(sound, func(damaged []byte, what string, at int) {
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		j, err := s.Journal(webSession, id("backend"))
		require.NoError(t, err)
		require.NotEqual(t, want.Calls(), j.Calls(), "%s at %d", what, at)
	})
}

func TestALineThatIsGoneIsMissed(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	path := journalPath(s, id("backend"))
	journaled(t, s, webSession, id("backend"), 2)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for i := range lines[:6] {
		require.NoError(t, os.WriteFile(path, bytes.Join(append(append([][]byte{}, lines[:i]...), lines[i+1:]...), nil), 0o600))
		report, err := s.VerifyAll(t.Context())
		require.NoError(t, err)
		require.Len(t, report.Faults, 1)
		require.Contains(t, report.Faults[0].Path, "calls.jsonl", "line %d", i+1)
	}
}

// FuzzJournalFile holds the reading of journals against files that somebody else
// has written: none may crash it, whatever is sound is used, and an entry that is
// appended then is there.
func FuzzJournalFile(f *testing.F) {
	s := newStore(f)
	journaled(f, s, webSession, id("backend"), 2)
	sound, err := os.ReadFile(journalPath(s, id("backend")))
	require.NoError(f, err)
	f.Add(sound)
	f.Add(sound[:len(sound)-1])
	f.Add(append(bytes.Clone(sound), "{\"entry\":null}\n\n\x00"...))
	f.Add([]byte("\n"))
	path := journalPath(s, id("frontend"))
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, os.WriteFile(path, data, 0o600))
		before, err := s.Journal(webSession, id("frontend"))
		require.NoError(t, err)
		e := begun(before.Next(), 1)
		require.NoError(t, s.AppendEntry(webSession, id("frontend"), e))
		after, err := s.Journal(webSession, id("frontend"))
		require.NoError(t, err)
		require.Len(t, after.Calls(), len(before.Calls())+1)
		for i, call := range before.Calls() {
			require.Equal(t, call, after.Calls()[i])
		}
		require.Equal(t, e.Seq+1, after.Next())
	})
}
