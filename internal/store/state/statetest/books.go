package statetest

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// SQLite opens the database in a state directory for statements of a test, as another process does.
func SQLite(t testing.TB, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, state.FileName)+"?_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// Set sets the time.
func (c *Clock) Set(at time.Time) { c.micros.Store(at.UnixMicro()) }

// Limit is a limit of a session without raises, or of the day of the team name.
func Limit(kind session.BudgetScope, name string, limit spec.Cap) budget.Budget {
	return budget.Budget{Kind: kind, Name: name, Base: limit}
}

// Admit admits a session with these limits in place of those that it has.
func Admit(t testing.TB, db *state.DB, key session.Key, team string, caps ...budget.Budget) {
	t.Helper()
	id := state.NewCallID()
	_, err := db.Admit(t.Context(), state.Admission{
		Key: key, TemporalRun: id, OriginalRun: id, Team: team, Caps: caps,
	})
	require.NoError(t, err)
}

// Put writes a session's status as its workflow does at a boundary. It admits the session, or its next runs, if nobody has.
// change gets the stored status.
func Put(t testing.TB, db *state.DB, key session.Key, change func(*session.Execution)) {
	t.Helper()
	e, err := db.Execution(t.Context(), key)
	if !errors.Is(err, state.ErrNotFound) {
		require.NoError(t, err)
	}
	admitted := e.Run
	e.Namespace, e.Session = key.Namespace, key.Session
	at := time.UnixMicro(micros(e.BoundaryAt) + 1)
	if change(&e); e.BoundaryAt.After(at) {
		at = e.BoundaryAt
	}
	e.RunID = cmp.Or(e.RunID, "run of "+key.Session)
	for run := admitted; run < max(e.Run, 1); run++ {
		temporal := e.RunID
		if run < max(e.Run, 1)-1 {
			temporal = fmt.Sprint(run, " of ", key.Session)
		}
		_, err := db.Admit(t.Context(), state.Admission{
			Key: key, TemporalRun: temporal, OriginalRun: cmp.Or(e.OriginalRun, temporal), Team: e.Team, Selection: e.Course,
		})
		require.NoError(t, err)
	}
	_, late, err := db.PutBoundary(t.Context(), state.Boundary{
		Key: key, TemporalRun: e.RunID, FirstRun: cmp.Or(e.FirstRun, e.RunID),
		At: at, Status: e.Status,
	})
	require.NoError(t, err)
	require.False(t, late)
}

func micros(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMicro()
}

// runOf is the Temporal run that has written a session's status; a new one if none has.
func runOf(t testing.TB, db *state.DB, key session.Key) string {
	t.Helper()
	e, err := db.Execution(t.Context(), key)
	if errors.Is(err, state.ErrNotFound) {
		return state.NewCallID()
	}
	require.NoError(t, err)
	return e.RunID
}

// PutRounds writes rounds of an assignment as its activities do: the order of each is the one of its pass, 1 by default. The
// session has a status, and the rounds are ordered.
func PutRounds(t testing.TB, db *state.DB, of state.Assignment, rounds ...session.RoundRecord) {
	t.Helper()
	for _, r := range rounds {
		o := state.RoundOrder{
			Assignment: of, TemporalRun: runOf(t, db, of.Key), Ordered: max(r.Pass, 1) - 1, Round: r.Round,
			Activity: cmp.Or(r.Activity, "1"), Seq: r.Seq,
			Holder: state.NewCallID(),
		}
		if o.Ordered > 0 {
			o.Because = cmp.Or(r.Because, session.BecauseSentBack)
		}
		opened, err := db.OpenRound(t.Context(), o)
		require.NoError(t, err)
		r.Order, r.Activity = opened.Order, o.Activity
		require.NoError(t, db.PutRound(t.Context(), opened.Fence, of, r, nil))
	}
}

// Booking is a call that [Book] books.
type Booking struct {
	state.Assignment
	Team, Agent, Model string
	// End is the state of the call.
	End state.CallState
	// Cost is what it has cost; of an unsettled call, and of one in progress, the estimate.
	Cost cost.Usage
}

// Book books a call of a session, which it admits without limits if nobody has, and returns its id.
func Book(t testing.TB, db *state.DB, b Booking) (id string) {
	t.Helper()
	ctx, estimate := t.Context(), b.Cost.Amount()
	run, err := db.Enter(ctx, b.Key, runOf(t, db, b.Key))
	if errors.Is(err, state.ErrNotFound) {
		Admit(t, db, b.Key, b.Team)
	}
	if errors.Is(err, state.ErrNotFound) || errors.Is(err, state.ErrFenced) {
		run, err = db.Enter(ctx, b.Key, state.NewCallID())
	}
	require.NoError(t, err)
	id = state.NewCallID()
	v, err := db.Begin(ctx, state.NewCall{
		ID: id, CallKey: state.CallKey{
			AttemptKey: state.AttemptKey{Assignment: b.Assignment, Pass: 1, Round: 1, Attempt: 1},
			Call:       state.NextCall,
		},
		Fence: state.Fence{Run: run}, Team: b.Team, Agent: b.Agent, Model: b.Model, Want: estimate, Estimated: estimate,
		Free: estimate == cost.Amount{},
	})
	require.NoError(t, err)
	require.Nil(t, v.Refused)
	switch b.End {
	case state.CallBegun:
	case state.CallUnsettled:
		require.NoError(t, db.End(ctx, id, state.CallEnd{State: state.CallUnsettled}))
	case state.CallClosed:
		require.NoError(t, db.End(ctx, id, state.CallEnd{State: state.CallUnsettled}))
		require.NoError(t, db.CloseCall(ctx, id, b.Cost, "ann", ""))
	case state.CallAnswered, state.CallFailed:
		require.NoError(t, db.End(ctx, id, state.CallEnd{State: b.End, Usage: b.Cost}))
	}
	return id
}
