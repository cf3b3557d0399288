package store_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

var webSession = session.Key{Namespace: "default", Session: "web-1"}

func record(incarnation int) session.Record {
	return session.Record{
		Assignment: id("backend"), Incarnation: incarnation,
		Rounds: []session.RoundRecord{{
			Key: session.RoundKey{Workflow: "web-1", Run: "r", Activity: "5"}, Round: 1,
			RoundLog: session.RoundLog{Attempts: []session.AttemptReport{{
				Attempt: 1, Failure: *failures.Failf(failures.TestFailure, "ü <&> failed"), StartedAt: now, EndedAt: now,
				Usage: cost.Usage{InputTokens: 1_000_000_000_000, CostUSD: 123_456_789_012_345},
			}}},
		}},
	}
}

func recordPath(s *store.Store) string {
	return filepath.Join(s.Dir(), "sessions/default/web-1/assignments/build.backend.json")
}

func TestARecordGoesRound(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	_, err := s.Record(webSession, id("backend"))
	require.ErrorIs(t, err, session.ErrNotFound)
	require.NoError(t, s.PutRecord(webSession, record(1)))
	got, err := s.Record(webSession, id("backend"))
	require.NoError(t, err)
	want := record(1)
	want.Schema = session.RecordSchema
	require.Equal(t, want, got)

	require.NoError(t, s.PutRecord(webSession, got), "what was read can be written")
	info, err := os.Stat(recordPath(s))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	records, err := s.Records(t.Context(), webSession)
	require.NoError(t, err)
	require.Equal(t, []session.Record{got}, records)
}

func TestAnOlderIncarnationIsFencedOff(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	require.NoError(t, s.PutRecord(webSession, record(2)))
	require.ErrorIs(t, s.PutRecord(webSession, record(1)), session.ErrFenced)
	got, err := s.Record(webSession, id("backend"))
	require.NoError(t, err)
	require.Equal(t, 2, got.Incarnation)
	require.NoError(t, s.PutRecord(webSession, record(2)))
	require.NoError(t, s.PutRecord(webSession, record(3)))
}

func TestEveryByteOfARecordCounts(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	require.NoError(t, s.PutRecord(webSession, record(1)))
	sound, err := os.ReadFile(recordPath(s))
	require.NoError(t, err)
	everyDamage(sound, func(damaged []byte, what string, at int) {
		require.NoError(t, os.WriteFile(recordPath(s), damaged, 0o600))
		_, err := s.Record(webSession, id("backend"))
		require.ErrorIs(t, err, session.ErrCorrupt, "%s at %d", what, at)
	})
	var fault *cas.Fault
	require.NoError(t, os.WriteFile(recordPath(s), sound[1:], 0o600))
	_, err = s.Record(webSession, id("backend"))
	require.ErrorAs(t, err, &fault)
	require.Equal(t, "sessions/default/web-1/assignments/build.backend.json", fault.Path)
	require.FileExists(t, filepath.Join(s.Dir(), fault.Quarantined))
	_, err = s.Record(webSession, id("backend"))
	require.ErrorIs(t, err, session.ErrNotFound)
	require.NoError(t, s.PutRecord(webSession, record(1)))
}

// everyDamage calls try with a bit of each byte flipped, each byte dropped and each cut
// of data.
func everyDamage(data []byte, try func(damaged []byte, what string, at int)) {
	for at := range data {
		d := bytes.Clone(data)
		d[at] ^= 1 << (at % 8)
		try(d, "flipped", at)
		try(data[:at], "cut", at)
		try(append(bytes.Clone(data[:at]), data[at+1:]...), "dropped", at)
	}
}

func TestARecordInAnothersPlaceIsFound(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	require.NoError(t, s.PutRecord(webSession, record(1)))
	data, err := os.ReadFile(recordPath(s))
	require.NoError(t, err)
	other := filepath.Join(filepath.Dir(recordPath(s)), "build.frontend.json")
	require.NoError(t, os.WriteFile(other, data, 0o600))
	_, err = s.Record(webSession, id("frontend"))
	require.ErrorIs(t, err, session.ErrCorrupt)
	require.ErrorContains(t, err, "build/backend")
}

func TestNamesThatWouldLeaveTheStore(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, key := range []session.Key{
		{Namespace: "..", Session: "s"},
		{Namespace: "n", Session: ".."},
		{Namespace: "n", Session: "a/b"},
		{Namespace: "", Session: "s"},
		{Namespace: "n", Session: ""},
		{Namespace: "n", Session: "a\x00"},
	} {
		require.Error(t, s.PutRecord(key, record(1)))
		_, err := s.Record(key, id("backend"))
		require.Error(t, err)
		_, _, err = s.Lock(key, id("backend"))
		require.Error(t, err)
		_, err = s.PutCheckpoint(t.Context(), key, session.Checkpoint{CurrentPhase: "init"})
		require.Error(t, err)
		require.Error(t, s.UpdateExecution(key, func(*session.Execution) {}))
	}
	bad := record(1)
	bad.Assignment.Persona = "../x"
	require.Error(t, s.PutRecord(webSession, bad))
	_, err := s.PutCheckpoint(t.Context(), webSession, session.Checkpoint{CurrentPhase: "../x"})
	require.Error(t, err)
	_, err = s.Sessions(t.Context(), "..")
	require.Error(t, err)
}

func TestExecutionStateIsRevised(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	_, err := s.Execution(webSession)
	require.ErrorIs(t, err, session.ErrNotFound)
	for i := range 3 {
		require.NoError(t, s.UpdateExecution(webSession, func(e *session.Execution) {
			require.EqualValues(t, i, e.Revision)
			e.Status.Status, e.Revision = session.Running, 99
		}))
	}
	e, err := s.Execution(webSession)
	require.NoError(t, err)
	require.EqualValues(t, 3, e.Revision)
	require.Equal(t, s.ID(), e.Store)
	require.Equal(t, "web-1", e.Session)
	require.Equal(t, "default", e.Namespace)
	require.Equal(t, session.ExecutionSchema, e.Schema)
	require.Equal(t, now, e.UpdatedAt)

	path := filepath.Join(s.Dir(), "sessions/default/web-1/execution_state.json")
	var doc map[string]any
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &doc))
	require.Equal(t, "running", doc["status"])

	require.NoError(t, os.Truncate(path, int64(len(data)/2)))
	require.NoError(t, s.UpdateExecution(webSession, func(e *session.Execution) {
		require.Zero(t, *e, "a damaged state starts from zero")
		e.Reason = "build"
	}))
	e, err = s.Execution(webSession)
	require.NoError(t, err)
	require.EqualValues(t, 1, e.Revision)
	kept, err := filepath.Glob(filepath.Join(s.Dir(), "quarantine", "*execution_state*"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
}

func TestSessionsAreListed(t *testing.T) {
	t.Parallel()
	clock := now
	s, err := store.Create(filepath.Join(t.TempDir(), "s"), store.Options{Clock: func() time.Time { return clock }})
	require.NoError(t, err)
	none, err := s.Sessions(t.Context(), "default")
	require.NoError(t, err)
	require.Empty(t, none)
	for _, name := range []string{"b", "a", "c"} {
		clock = clock.Add(time.Minute)
		require.NoError(t, s.UpdateExecution(session.Key{Namespace: "default", Session: name}, func(e *session.Execution) { e.Reason = "init" }))
	}
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir(), "sessions/default/a/execution_state.json"), []byte("{"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(s.Dir(), "sessions/default/.hidden"), 0o700))
	keys, err := s.Sessions(t.Context(), "default")
	require.NoError(t, err)
	require.Equal(t, []session.Key{{Namespace: "default", Session: "a"}, {Namespace: "default", Session: "b"}, {Namespace: "default", Session: "c"}}, keys)
	namespaces, err := s.Namespaces(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"default"}, namespaces)
	known, err := s.HasSession(keys[0])
	require.NoError(t, err)
	require.True(t, known)
	known, err = s.HasSession(session.Key{Namespace: "other", Session: "a"})
	require.NoError(t, err)
	require.False(t, known)

	all, err := s.Executions(t.Context(), "default")
	require.ErrorIs(t, err, session.ErrCorrupt, "the loss is said")
	require.Len(t, all, 2)
	require.Equal(t, "c", all[0].Session)
	require.Equal(t, "b", all[1].Session)
}

func TestOffers(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	offers, err := s.Offers(t.Context())
	require.NoError(t, err)
	require.Empty(t, offers)
	ids := []string{"host-1", "../../x", "a/b", "a_b", "ü"}
	for _, id := range ids {
		require.NoError(t, s.PutOffer(t.Context(), spec.Offer{Worker: id, RenewedAt: now}))
		require.NoError(t, s.PutOffer(t.Context(), spec.Offer{Worker: id, RenewedAt: now}))
	}
	require.Error(t, s.PutOffer(t.Context(), spec.Offer{}))
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir(), "workers", "bad.json"), []byte("{"), 0o600))
	offers, err = s.Offers(t.Context())
	require.NoError(t, err)
	var got []string
	for _, o := range offers {
		require.True(t, o.Live(now))
		got = append(got, o.Worker)
	}
	require.ElementsMatch(t, ids, got)
	for _, id := range ids {
		require.NoError(t, s.RemoveOffer(t.Context(), id))
		require.NoError(t, s.RemoveOffer(t.Context(), id))
	}
	offers, err = s.Offers(t.Context())
	require.NoError(t, err)
	require.Empty(t, offers)
}

// During an upgrade, an older program must not take a newer one's documents for damaged ones.
func TestADocumentOfANewerVersionStaysWhereItIs(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	require.NoError(t, s.PutRecord(webSession, record(1)))
	newer := record(2)
	newer.Schema = "maestro.record/v2"
	data, err := store.Seal(newer)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(recordPath(s), data, 0o600))
	_, err = s.Record(webSession, id("backend"))
	require.ErrorContains(t, err, "newer version of Maestro")
	require.NotErrorIs(t, err, session.ErrCorrupt)
	require.Error(t, s.PutRecord(webSession, record(3)), "it is not replaced")
	kept, err := os.ReadFile(recordPath(s))
	require.NoError(t, err)
	require.Equal(t, data, kept)

	flipped := bytes.Replace(data, []byte(`"incarnation":2`), []byte(`"incarnation":3`), 1)
	require.NoError(t, os.WriteFile(recordPath(s), flipped, 0o600))
	_, err = s.Record(webSession, id("backend"))
	require.ErrorIs(t, err, session.ErrCorrupt, "damage is damage")
}
