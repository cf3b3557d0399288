package statetest

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// digest is a valid digest that is easy to tell from others.
func digest(c string) spec.Digest { return spec.Digest(strings.Repeat(c, 64)) }

func checkpoint(run, at int64, phase, name, previous string) state.Checkpoint {
	c := state.Checkpoint{Key: sessionOf("s"), Run: run, BoundaryAt: at, Phase: phase, Digest: digest(name), Tree: digest("e")}
	if previous != "" {
		c.Previous = digest(previous)
	}
	return c
}

// kept are the digests of the checkpoints of a session, newest first.
func (b *bench) kept(t *testing.T) (digests []spec.Digest) {
	t.Helper()
	all, err := b.Checkpoints(t.Context(), sessionOf("s"))
	require.NoError(t, err)
	for _, c := range all {
		digests = append(digests, c.Digest)
	}
	return digests
}

// checkpointsAreOrdered: a late executor changes nothing, and a repetition finds the row of the first.
func checkpointsAreOrdered(t *testing.T, b *bench) {
	put := func(c state.Checkpoint) { require.NoError(t, b.PutCheckpoints(t.Context(), team, c)) }
	put(checkpoint(1, 100, "init", "1", ""))
	put(checkpoint(1, 300, "build", "2", "1"))
	put(checkpoint(1, 300, "build", "3", "1"))
	require.Equal(t, []spec.Digest{digest("3"), digest("1")}, b.kept(t), "the same boundary, decided differently")
	for range 2 {
		put(checkpoint(1, 300, "build", "2", "1"))
	}
	put(checkpoint(1, 200, "plan", "4", "1"))
	require.Equal(t, []spec.Digest{digest("2"), digest("1")}, b.kept(t), "an earlier boundary changes nothing")

	for range 2 { // the next boundary, in the same moment
		put(checkpoint(1, 300, "test", "5", "2"))
	}
	put(checkpoint(2, 50, "init", "6", "5"))
	put(checkpoint(1, 900, "ship", "7", "5"))
	require.Equal(t, []spec.Digest{digest("6"), digest("5"), digest("2"), digest("1")}, b.kept(t), "an earlier run changes nothing")
	sessions, err := b.Standings(t.Context())
	require.NoError(t, err)
	require.Len(t, sessions, 1)
	require.Equal(t, sessionOf("s"), sessions[0].Key)
}

func checkpointsAreMirrored(t *testing.T, b *bench) {
	for i, name := range []string{"1", "2", "3"} {
		require.NoError(t, b.PutCheckpoints(t.Context(), team, checkpoint(1, int64(i), "build", name, "")))
	}
	Put(t, b.DB, sessionOf("s"), func(e *session.Execution) { e.Team, e.Status.Status = team, session.Running })
	waiting, err := b.ToMirror(t.Context())
	require.NoError(t, err)
	require.Equal(t, []session.Key{sessionOf("s")}, waiting)
	require.NoError(t, b.SetMirrored(t.Context(), sessionOf("s"), 0, checkpoint(1, 1, "", "2", "")))
	all, err := b.Checkpoints(t.Context(), sessionOf("s"))
	require.NoError(t, err)
	require.Equal(t, []bool{false, true, true}, []bool{all[0].MirroredAt.Valid, all[1].MirroredAt.Valid, all[2].MirroredAt.Valid})
	require.NoError(t, b.SetMirrored(t.Context(), sessionOf("s"), 1, checkpoint(1, 2, "", "4", "")))
	again, err := b.Checkpoints(t.Context(), sessionOf("s"))
	require.NoError(t, err)
	require.False(t, again[0].MirroredAt.Valid, "another one was mirrored")
	require.NoError(t, b.SetMirrored(t.Context(), sessionOf("s"), 1, all[0]))
	waiting, err = b.ToMirror(t.Context())
	require.NoError(t, err)
	require.Empty(t, waiting)

	require.NoError(t, b.SetPruned(t.Context(), all))
	all, err = b.Checkpoints(t.Context(), sessionOf("s"))
	require.NoError(t, err)
	require.Equal(t, []bool{false, true, true}, []bool{all[0].PrunedAt.Valid, all[1].PrunedAt.Valid, all[2].PrunedAt.Valid},
		"the newest stays")
	roots, err := b.Roots(t.Context(), session.Key{})
	require.NoError(t, err)
	require.Equal(t, []spec.Digest{digest("3")}, digestsOf(roots))
}

func digestsOf(roots []state.Root) (digests []spec.Digest) {
	for _, r := range roots {
		if r.Kind != state.RootText {
			digests = append(digests, r.Digest())
		}
	}
	slices.Sort(digests)
	return digests
}

// filledSession has rows in many tables: a checkpoint, calls, a raise, a request, labels and alerts.
func filledSession(t *testing.T, b *bench) {
	t.Helper()
	a := state.Admission{
		Key: sessionOf("s"), TemporalRun: "r", Team: team, TeamDigest: string(digest("a")), Requirement: "a shop",
		Workspace:   string(digest("b")),
		OriginalRun: "r",
	}
	a.Caps = append(a.Caps, capOf(session.BudgetOfSession, "", 1000))
	_, err := b.Admit(t.Context(), a)
	require.NoError(t, err)
	e := execution("s", b.clock.Now(), session.HelpIsNeeded)
	e.Labels = map[string]string{"area": "ui"}
	e.Help = []session.Request{{
		ID: "1", Kind: session.ForHelp, Phase: "build", Persona: "dev", Message: "what now?",
		Actions: []session.Action{session.AnswerRetry}, Since: b.clock.Now(),
	}}
	e.Alerts = []session.Alert{{Rule: "cost_usd: 20", Message: "it is dear", At: b.clock.Now()}}
	_, _, err = b.PutBoundary(t.Context(), state.Boundary{
		Key: sessionOf("s"), TemporalRun: "r", At: b.clock.Now(), Status: e.Status,
		Answers: []session.Answer{{Request: "0", Action: session.AnswerSupply, By: "ana", Files: digest("c"), At: b.clock.Now()}},
	})
	require.NoError(t, err)
	paid := answered(5)
	paid.Answer = string(digest("d"))
	require.NoError(t, b.End(t.Context(), b.begin(t, b.call(dev("s"), 1, 40)).ID, paid))
	b.begin(t, b.call(lead("s"), 1, 60))
	require.NoError(t, b.PutCheckpoints(t.Context(), team, checkpoint(1, 1, "init", "1", "")))
}

// sent is what arrives of rows as JSON.
func sent(t *testing.T, rows state.Rows) (arrived state.Rows) {
	t.Helper()
	data, err := json.Marshal(rows)
	require.NoError(t, err)
	from := json.NewDecoder(bytes.NewReader(data))
	from.UseNumber()
	require.NoError(t, from.Decode(&arrived))
	return arrived
}

// sessionsMove: the rows of a session are loaded under another name, and nobody runs it.
func sessionsMove(t *testing.T, b *bench) {
	filledSession(t, b)
	rows, roots, err := b.Dump(t.Context(), sessionOf("s"), true)
	require.NoError(t, err)
	require.Equal(t, []spec.Digest{digest("1"), digest("a"), digest("b"), digest("c"), digest("d")}, digestsOf(roots))
	again, _, err := b.Dump(t.Context(), sessionOf("s"), true)
	require.NoError(t, err)
	require.Equal(t, rows, again)
	without, roots, err := b.Dump(t.Context(), sessionOf("s"), false)
	require.NoError(t, err)
	require.NotContains(t, digestsOf(roots), digest("d"))
	require.NotEqual(t, rows, without)

	_, err = b.Load(t.Context(), sessionOf("s"), sent(t, rows), true)
	require.ErrorIs(t, err, state.ErrSessionExists)
	b.clock.Pass(time.Hour)
	for _, check := range []bool{true, true, false} { // a check changes nothing
		loaded, err := b.Load(t.Context(), sessionOf("copy"), sent(t, rows), check)
		require.NoError(t, err)
		require.Equal(t, []spec.Digest{digest("1"), digest("a"), digest("b"), digest("c"), digest("d")}, digestsOf(loaded))
	}
	s, ok, err := b.Session(t.Context(), sessionOf("copy"))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, session.Failed, s.Status)
	require.Contains(t, s.Reason, "maestro resume copy")
	require.Zero(t, s.Requests)
	require.Equal(t, "a shop", s.Requirement)
	open, err := b.UnfinishedCalls(t.Context(), state.Assignment{Key: sessionOf("copy")})
	require.NoError(t, err, "the digests of the rows are right")
	require.Len(t, open, 1)
	require.Equal(t, state.CallUnsettled, open[0].State)
	waiting, err := b.ToMirror(t.Context())
	require.NoError(t, err)
	require.Contains(t, waiting, sessionOf("copy"))
}

// wrongRowsAreRefused: nothing of them is loaded.
func wrongRowsAreRefused(t *testing.T, b *bench) {
	filledSession(t, b)
	good, _, err := b.Dump(t.Context(), sessionOf("s"), true)
	require.NoError(t, err)
	for name, wrong := range map[string]func(state.Rows){
		"no session":       func(r state.Rows) { r["sessions"] = nil },
		"two sessions":     func(r state.Rows) { r["sessions"] = append(r["sessions"], r["sessions"][0]) },
		"another table":    func(r state.Rows) { r["tokens"] = r["sessions"] },
		"another column":   func(r state.Rows) { r["sessions"][0]["admin"] = "yes" },
		"its own session":  func(r state.Rows) { r["sessions"][0]["session"] = "other"; delete(r["sessions"][0], "team") },
		"a missing column": func(r state.Rows) { delete(r["runs"][0], "base") },
		"a text":           func(r state.Rows) { r["calls"][0]["input_tokens"] = "many" },
		"a list":           func(r state.Rows) { r["calls"][0]["model"] = []any{} },
		"a fraction":       func(r state.Rows) { r["calls"][0]["input_tokens"] = json.Number("1.5") },
		"too large":        func(r state.Rows) { r["calls"][0]["input_tokens"] = json.Number("9223372036854775808") },
		"negative":         func(r state.Rows) { r["calls"][0]["reserved_tokens"] = json.Number("-1") },
		"a null":           func(r state.Rows) { r["calls"][0]["input_tokens"] = nil },
		"another state":    func(r state.Rows) { r["sessions"][0]["status"] = "paused" },
		"a path":           func(r state.Rows) { r["checkpoints"][0]["phase"] = "../x" },
		"a path of a call": func(r state.Rows) { r["calls"][0]["persona"] = "../x" },
		"no day":           func(r state.Rows) { r["calls"][0]["day"] = "today" },
		"no digest":        func(r state.Rows) { r["checkpoints"][0]["digest"] = "../../etc/passwd" },
		"a row twice":      func(r state.Rows) { r["checkpoints"] = append(r["checkpoints"], r["checkpoints"][0]) },
		"no round":         func(r state.Rows) { r["rounds"] = []map[string]any{{}} },
	} {
		rows := sent(t, good)
		wrong(rows)
		_, err := b.Load(t.Context(), sessionOf("copy"), rows, false)
		require.Error(t, err, name)
		require.NotErrorIs(t, err, state.ErrUnavailable, name)
		_, err = b.Standing(t.Context(), sessionOf("copy"))
		require.ErrorIs(t, err, state.ErrNotFound, name)
	}
}
