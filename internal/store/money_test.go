package store_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// paid admits a session with a budget, and books answered calls of an assignment.
func paid(t testing.TB, s *store.Store, key session.Key, id spec.AssignmentID, calls int) {
	t.Helper()
	run, err := s.State.Admit(t.Context(), state.Admission{
		Key: key, TemporalRun: store.RunOf(key), OriginalRun: store.RunOf(key), Team: "shop",
		Caps: []budget.Budget{{Kind: session.BudgetOfSession, Base: spec.Cap{Tokens: 1000}}},
	})
	require.NoError(t, err)
	put := func(what string, n int) string {
		return string(stored(t, s, fmt.Appendf(nil, `{"%s log of":"%s %s","call":%d}`, what, key, id, n)))
	}
	attempt := state.AttemptKey{Assignment: state.Assignment{Key: key, AssignmentID: id}, Pass: 1, Round: 1, Attempt: 1}
	for n := range calls {
		call := state.NewCallID()
		_, err := s.State.Begin(t.Context(), state.NewCall{
			ID: call, CallKey: state.CallKey{AttemptKey: attempt, Call: state.NextCall}, Fence: state.Fence{Run: run}, Team: "shop",
			Agent: "coder",
			Model: "m", Request: fmt.Sprint("request ", n), Want: cost.Amount{Tokens: 20}, Least: cost.Amount{Tokens: 20},
		})
		require.NoError(t, err)
		require.NoError(t, s.State.End(t.Context(), call, state.CallEnd{
			State: state.CallAnswered, Answer: put("answer", n),
			Usage: cost.Usage{OutputTokens: 10},
		}))
		require.NoError(t, s.State.KeepTools(t.Context(), call, put("tools", n)))
	}
}

// TestCallsTravelWithTheirSession to another store, under another name, too.
func TestCallsTravelWithTheirSession(t *testing.T) {
	t.Parallel()
	from, to := newStore(t), newStore(t)
	busySession(t, from, webSession)
	_, err := from.State.AddRaise(t.Context(), webSession, budget.Raise{
		ID: "1", Scope: budget.SessionScope, By: "ann",
		Added: cost.Amount{Tokens: 50},
	}, "cli")
	require.NoError(t, err)
	whole := archive(t, from, webSession, true)
	for _, name := range []string{"", "copy"} {
		key := webSession
		_, err := to.ImportSession(t.Context(), bytes.NewReader(whole), key.Namespace, name)
		require.NoError(t, err)
		if name != "" {
			key.Session = name
		}
		had, err := from.State.Account(t.Context(), webSession)
		require.NoError(t, err)
		has, err := to.State.Account(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, had.Costs, has.Costs)
		require.Equal(t, had.Budget(budget.SessionScope), has.Budget(budget.SessionScope))
		report := verified(t, to)
		require.Empty(t, report.Faults)
		require.NotZero(t, report.Calls)
	}
}

// TestDamageInTheDatabaseIsNamed: a row that differs from its digest.
func TestDamageInTheDatabaseIsNamed(t *testing.T) {
	t.Parallel()
	for change, says := range map[string]string{
		`update calls set tokens = tokens + 1, output_tokens = output_tokens + 1`: "its row differs from its digest",
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			chain(t, s, webSession)
			paid(t, s, webSession, id("ann"), 1)
			db, err := sql.Open("sqlite", filepath.Join(s.Dir(), state.FileName))
			require.NoError(t, err)
			defer db.Close()
			_, err = db.ExecContext(t.Context(), change)
			require.NoError(t, err)
			report := verified(t, s)
			require.NotEmpty(t, report.Faults)
			require.Equal(t, state.FileName, report.Faults[0].Path)
			require.Contains(t, report.Faults[0].What, says)
		})
	}
}
