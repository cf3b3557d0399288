package statetest

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/state"
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
	_, err := db.Admit(t.Context(), state.Admission{
		Key: key, TemporalRun: state.NewCallID(), Team: team, Source: "{}", Given: "{}", Selection: "{}", Plan: "[]", Via: "cli", Caps: caps,
	})
	require.NoError(t, err)
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
	run, _, err := db.Enter(ctx, b.Key, state.NewCallID(), "")
	if errors.Is(err, state.ErrNotFound) {
		Admit(t, db, b.Key, b.Team)
		run, _, err = db.Enter(ctx, b.Key, state.NewCallID(), "")
	}
	require.NoError(t, err)
	id = state.NewCallID()
	v, err := db.Begin(ctx, state.NewCall{
		ID: id, CallKey: state.CallKey{AttemptKey: state.AttemptKey{Assignment: b.Assignment, Pass: 1, Round: 1, Attempt: 1}, Call: state.NextCall},
		Fence: state.Fence{Run: run}, Team: b.Team, Agent: b.Agent, Model: b.Model, Want: estimate, Estimated: estimate, Free: estimate == cost.Amount{},
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
