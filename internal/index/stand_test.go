package index_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/index"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/state"
	"github.com/maestro-hive/maestro/internal/state/statetest"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/usage"
)

const namespace = "default"

// epoch is when the first session of a stand was started.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// stand is a store with sessions that tests write.
type stand struct {
	t     testing.TB
	dir   string
	store *store.Store
	clock *statetest.Clock
	r     *rand.Rand
	// keys are the sessions that were ever written.
	keys map[session.Key]bool
	// calm: few sessions are at work, and few calls without a known cost.
	calm bool
}

func newStand(t testing.TB, dir string) *stand {
	t.Helper()
	clock := &statetest.Clock{}
	clock.Set(epoch)
	s, err := store.Create(dir, store.Options{Clock: clock.Now})
	require.NoError(t, err)
	return &stand{t: t, dir: dir, store: s, clock: clock, r: rand.New(rand.NewPCG(1, 2)), keys: map[session.Key]bool{}}
}

// filledStand is a stand of 60 sessions.
func filledStand(t testing.TB) *stand {
	t.Helper()
	w := newStand(t, filepath.Join(t.TempDir(), "store"))
	for i := range 60 {
		w.add(i)
	}
	return w
}

func key(name string) session.Key { return session.Key{Namespace: namespace, Session: name} }

func (w *stand) open() *index.Index {
	x, err := index.Open(w.t.Context(), w.store, index.Options{})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = x.Close() })
	require.NoError(w.t, x.InMemory())
	return x
}

func (w *stand) refresh(x *index.Index) index.Refreshed {
	done, err := x.Refresh(w.t.Context(), namespace)
	require.NoError(w.t, err)
	return done
}

// settled refreshes an index until no session has changed lately.
func (w *stand) settled(x *index.Index) {
	require.Eventually(w.t, func() bool { return w.refresh(x).Read == 0 }, time.Minute, 50*time.Millisecond)
}

var (
	personas = []string{"analyst", "dev", "tester"}
	states   = []session.State{session.Completed, session.Completed, session.Failed, session.Running, session.HelpIsNeeded, session.WasCancelled}
)

// add writes the documents of the i-th session as its activities do.
func (w *stand) add(i int) session.Key {
	w.t.Helper()
	k := key(fmt.Sprintf("s%05d", i))
	started := epoch.Add(time.Duration(i/3) * 17 * time.Minute)
	team, is := fmt.Sprintf("team%d", i%7), states[w.r.IntN(len(states))]
	troubled := !w.calm || w.r.IntN(20) == 0
	if !troubled {
		is = session.Completed
	}
	c := session.Checkpoint{
		CurrentPhase: spec.ReservedPhase, Incarnation: 1, CreatedAt: started, Team: session.Ref{Name: team},
		Requirement: fmt.Sprintf("Requirement %d: Ändere the %s", i, []string{"parser", "lexer", "docs"}[i%3]),
		Answers:     []session.Answer{{Request: "build.dev.1", Action: session.AnswerRetry, Since: started, At: started.Add(40 * time.Minute)}, {Request: "build", Action: session.AnswerApprove, Since: started, At: started.Add(20 * time.Minute)}},
		Assignments: []session.CheckpointAssignment{}, Decisions: map[string]string{}, Artifacts: []session.Artifact{},
	}
	head, err := w.store.PutCheckpoint(w.t.Context(), k, c)
	require.NoError(w.t, err)
	for p, persona := range personas[:1+w.r.IntN(len(personas))] {
		w.pay(k, spec.AssignmentID{Phase: fmt.Sprintf("phase%d", p), Persona: persona}, started, troubled)
	}
	require.NoError(w.t, w.store.UpdateExecution(k, func(e *session.Execution) {
		e.Status = session.Status{Session: k.Session, Team: team, Status: is, Incarnation: 1, StartedAt: &started, Checkpoint: head}
		e.RunID, e.FirstRun = "run", "run"
		if is.Closed() {
			closed := started.Add(2 * time.Hour)
			e.ClosedAt = &closed
		}
		for p, persona := range personas {
			a := session.AssignmentStatus{Persona: persona, AssignmentSummary: session.NoWork()}
			if a.Status = session.Completed; p == 2 && is == session.Failed {
				a.Status = session.Failed
			}
			a.Attempts, a.Failures = 1+p, append(make([]session.AttemptFailure, p), session.AttemptFailure{Category: failures.Auth}) // which does not count
			e.Phases = append(e.Phases, session.PhaseStatus{Name: fmt.Sprintf("phase%d", p), Status: session.Completed, Assignments: []session.AssignmentStatus{a}})
		}
		if is == session.HelpIsNeeded {
			e.Help = []session.Request{{ID: "build.dev.2", Kind: session.ForHelp, Since: started.Add(time.Hour), Actions: []session.Action{session.AnswerRetry}}}
		}
	}))
	return k
}

// pay books calls in all states.
func (w *stand) pay(k session.Key, id spec.AssignmentID, at time.Time, troubled bool) {
	w.t.Helper()
	w.keys[k] = true
	some := func() cost.Usage {
		return cost.Usage{InputTokens: w.r.Int64N(1000), OutputTokens: w.r.Int64N(100), CacheReadTokens: w.r.Int64N(50), CostUSD: cost.USD(w.r.Int64N(1e9))}
	}
	for range 1 + w.r.IntN(3) {
		at = at.Add(time.Duration(w.r.IntN(30)) * time.Hour)
		w.clock.Set(at)
		end := 3 + w.r.IntN(5)
		if troubled {
			end = w.r.IntN(8)
		}
		kind := []state.CallState{state.CallBegun, state.CallUnsettled, state.CallClosed, state.CallFailed, state.CallAnswered}[min(end, 4)]
		statetest.Book(w.t, w.store.State, statetest.Booking{
			Assignment: of(k, id), Team: "team", Agent: []string{"claude", "codex"}[w.r.IntN(2)], Model: fmt.Sprintf("model%d", w.r.IntN(3)), End: kind, Cost: some(),
		})
	}
}

func of(k session.Key, id spec.AssignmentID) state.Assignment {
	return state.Assignment{Key: k, AssignmentID: id}
}

// file is a file of a session.
func (w *stand) file(k session.Key, name string) string {
	return filepath.Join(w.dir, "sessions", k.Namespace, k.Session, name)
}

// change changes a session in one of the ways in which its documents do.
func (w *stand) change(k session.Key) {
	w.t.Helper()
	id := spec.AssignmentID{Phase: "phase0", Persona: personas[0]}
	switch w.r.IntN(5) {
	case 0:
		w.pay(k, id, epoch, true)
	case 1:
		open, err := w.store.State.Open(w.t.Context(), of(k, id))
		require.NoError(w.t, err)
		for _, call := range open {
			require.NoError(w.t, w.store.State.End(w.t.Context(), call.ID, state.CallEnd{State: state.CallAnswered, Usage: cost.Usage{InputTokens: 7}}))
			break
		}
	case 2:
		require.NoError(w.t, w.store.UpdateExecution(k, func(e *session.Execution) { e.Team = fmt.Sprintf("team%d", w.r.IntN(7)) }))
	case 3:
		_ = os.Remove(w.file(k, "execution_state.json"))
	case 4: // its costs stay
		require.NoError(w.t, os.RemoveAll(w.file(k, "")))
		if w.r.IntN(2) == 0 {
			w.pay(k, id, epoch, true)
		}
	}
}

// costs reads the costs of all sessions, the newest first.
func (w *stand) costs() (rows []usage.Row) {
	var all []usage.Session
	for _, k := range slices.SortedFunc(maps.Keys(w.keys), func(x, y session.Key) int { return strings.Compare(x.Session, y.Session) }) {
		read, err := usage.OfSession(w.t.Context(), w.store, k)
		require.NoError(w.t, err)
		all = append(all, read)
	}
	started := func(s usage.Session) time.Time {
		if s.Execution.StartedAt == nil {
			return time.Time{}
		}
		return *s.Execution.StartedAt
	}
	slices.SortStableFunc(all, func(x, y usage.Session) int { return started(y).Compare(started(x)) })
	for _, read := range all {
		rows = append(rows, read.Rows...)
	}
	return rows
}

// agrees holds what the index says against the documents and the calls.
func (w *stand) agrees(x *index.Index) {
	w.t.Helper()
	ctx := w.t.Context()
	costs := w.costs()
	for _, by := range [][]string{nil, {"session", "team"}, {"team"}, {"phase", "persona"}, {"agent", "model"}, {"day"}, {"day", "session", "model"}, {"session"}, usage.Keys} {
		for _, since := range []string{"", "2026-03-02"} {
			want, total := usage.Sum(costs, by, since)
			for _, f := range []index.Filter{{Namespace: namespace}, {Namespace: namespace, Until: epoch.AddDate(100, 0, 0)}} {
				rows, sum, err := x.Usage(ctx, by, since, f)
				require.NoError(w.t, err)
				require.Equal(w.t, total, sum, "by %v since %q", by, since)
				require.ElementsMatch(w.t, want, rows, "by %v since %q", by, since)
				if slices.Equal(by, []string{"session", "team"}) || slices.Equal(by, []string{"day"}) {
					require.Equal(w.t, want, rows)
				}
			}
		}
	}
	stored, _ := w.store.Executions(ctx, namespace)
	listed, err := x.Sessions(ctx, index.Filter{Namespace: namespace})
	require.NoError(w.t, err)
	slices.SortFunc(stored, func(a, b session.Execution) int {
		return cmp.Or(timeOf(b.StartedAt).Compare(timeOf(a.StartedAt)), strings.Compare(a.Session, b.Session))
	})
	require.Len(w.t, listed, len(stored))
	for i, e := range stored {
		l := listed[i]
		account, err := w.store.State.Account(ctx, key(e.Session))
		require.NoError(w.t, err)
		require.Equal(w.t, []any{e.Session, e.Team, e.Status.Status, e.StartedAt, e.ClosedAt, e.UpdatedAt, e.RunID, account.Usage().Tokens(), account.Usage().CostUSD, len(e.Help)},
			[]any{l.Session, l.Team, l.Status, l.StartedAt, l.ClosedAt, l.UpdatedAt, l.Run, l.Tokens, l.CostUSD, l.Requests})
		if e.Checkpoint != "" {
			c, err := w.store.PeekCheckpoint(ctx, e.Checkpoint)
			require.NoError(w.t, err)
			require.Equal(w.t, c.Requirement, l.Requirement)
		}
	}
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
