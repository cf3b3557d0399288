package statetest

import (
	"testing"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// BenchmarkCalls reserves and settles calls that count against four budgets, one caller after the other.
func BenchmarkCalls(b *testing.B, db *state.DB) {
	b.Helper()
	const much = 1 << 50
	s := &bench{DB: db}
	a := dev("s")
	if _, err := s.Admit(b.Context(), state.Admission{
		Key: a.Key, TemporalRun: "s", OriginalRun: "s", Team: team, Requirement: "a shop",
		Caps: []budget.Budget{
			capOf(session.BudgetOfDay, team, much), capOf(session.BudgetOfSession, "", much),
			capOf(session.BudgetOfPhase, a.Phase, much), capOf(session.BudgetOfPersona, a.Persona, much),
		},
	}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		n := s.call(a, 1, 10)
		if _, err := s.Begin(b.Context(), n); err != nil {
			b.Fatal(err)
		}
		if err := s.End(b.Context(), n.ID, answered(5)); err != nil {
			b.Fatal(err)
		}
	}
}
