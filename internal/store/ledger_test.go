package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

func ledgerPath(s *store.Store) string {
	return filepath.Join(s.Dir(), "sessions", webSession.Namespace, webSession.Session, "ledger.json")
}

func TestALedgerIsRevised(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	l, err := s.Ledger(webSession)
	require.NoError(t, err)
	require.Empty(t, l.Rows)
	require.NoFileExists(t, ledgerPath(s))
	for i := range 3 {
		require.NoError(t, s.UpdateLedger(webSession, func(l *budget.Ledger) error {
			require.EqualValues(t, i, l.Revision)
			l.Limits.Session.Tokens, l.Revision = int64(1000+i), 99
			return nil
		}))
	}
	wont := errors.New("rather not")
	require.ErrorIs(t, s.UpdateLedger(webSession, func(l *budget.Ledger) error {
		l.Limits.Session.Tokens = 1
		return wont
	}), wont)
	l, err = s.Ledger(webSession)
	require.NoError(t, err)
	require.EqualValues(t, 3, l.Revision)
	require.EqualValues(t, 1002, l.Limits.Session.Tokens, "what was refused changes nothing")
	require.Equal(t, budget.LedgerSchema, l.Schema)
}

func TestALostLedgerIsMadeFromTheJournals(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	journaled(t, s, webSession, id("backend"), 3)
	journaled(t, s, webSession, id("frontend"), 2)
	require.NoError(t, s.UpdateLedger(webSession, func(l *budget.Ledger) error {
		l.Limits.Session.Tokens = 1000
		l.Raise(budget.Raise{ID: "1", Scope: budget.SessionScope, By: "ann", Added: cost.Amount{Tokens: 500}, When: now})
		return nil
	}))
	want, err := s.Ledger(webSession)
	require.NoError(t, err)
	require.Len(t, want.Rows, 2)
	sound, err := os.ReadFile(ledgerPath(s))
	require.NoError(t, err)
	someDamage(sound, func(damaged []byte, what string, at int) {
		require.NoError(t, os.WriteFile(ledgerPath(s), damaged, 0o600))
		l, err := s.Ledger(webSession)
		require.NoError(t, err)
		require.Equal(t, want.Rows, l.Rows, "%s at %d", what, at)
		require.Equal(t, want.Limits, l.Limits, "%s at %d", what, at)
		require.Equal(t, want.Raises, l.Raises, "%s at %d: a person's word is not lost", what, at)
	})
	require.NoError(t, os.RemoveAll(ledgerPath(s)))
	require.NoError(t, s.UpdateLedger(webSession, func(l *budget.Ledger) error {
		require.Equal(t, want.Rows, l.Rows)
		return nil
	}))
	require.FileExists(t, ledgerPath(s))
}

func TestALedgerKeepsWhatACallMayCostThatNobodyKnows(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ids := []spec.AssignmentID{id("backend"), id("frontend"), id("tester"), id("writer"), id("editor")}
	for _, id := range ids {
		require.NoError(t, s.UpdateLedger(webSession, func(l *budget.Ledger) error {
			want, least := l.Guess("writer")
			require.Empty(t, l.Reserve(id, 1, want, least).Refused)
			return nil
		}))
	}
	l, err := s.Ledger(webSession)
	require.NoError(t, err)
	require.Zero(t, l.Reserved(), "nothing is limited")
}

func BenchmarkReserveAndSettle(b *testing.B) {
	s := newStore(b)
	j := journaled(b, s, webSession, id("backend"), 3)
	require.NoError(b, s.UpdateLedger(webSession, func(l *budget.Ledger) error {
		l.Limits = budget.Limits{Session: spec.Cap{Tokens: 1 << 50}, Phases: map[string]spec.Cap{"build": {USD: 1 << 50}}}
		for _, persona := range phases {
			for _, phase := range phases {
				l.SetRow(spec.AssignmentID{Phase: phase, Persona: persona}, j.Row(nil), now)
			}
		}
		return nil
	}))
	want := cost.Amount{Tokens: 1000, USD: 1000}
	for b.Loop() {
		require.NoError(b, s.UpdateLedger(webSession, func(l *budget.Ledger) error {
			l.Reserve(id("backend"), 1, want, want)
			return nil
		}))
		require.NoError(b, s.UpdateLedger(webSession, func(l *budget.Ledger) error {
			l.SetRow(id("backend"), j.Row(nil), now)
			return nil
		}))
	}
}

func BenchmarkAppendEntry(b *testing.B) {
	s := newStore(b)
	j := &budget.Journal{}
	for b.Loop() {
		e := begun(j.Next(), 1)
		require.NoError(b, s.AppendEntry(webSession, id("backend"), e))
		require.NoError(b, j.Apply(e))
	}
}
