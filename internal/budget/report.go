package budget

import (
	"cmp"
	"maps"
	"slices"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Budget is the state of one budget, for display.
type Budget struct {
	// Scope names it: "session", "phase NAME" or "persona NAME".
	Scope string
	// Cap is what may be spent, raises included; a zero dimension is not limited.
	Cap spec.Cap
	// Spent is the known cost, Unsettled the estimated cost, and Reserved what is reserved for
	// calls in progress.
	Spent, Unsettled, Reserved cost.Amount
	// Left is what is neither spent nor reserved. A negative dimension is not limited.
	Left cost.Amount
}

// Budgets lists the session's budgets with a limit: its own, and those of phases and personas,
// sorted.
func (l *Ledger) Budgets() []Budget {
	names := []string{SessionScope}
	for _, phase := range slices.Sorted(maps.Keys(l.Limits.Phases)) {
		names = append(names, PhaseScope(phase))
	}
	for _, persona := range slices.Sorted(maps.Keys(l.Limits.Personas)) {
		names = append(names, PersonaScope(persona))
	}
	var budgets []Budget
	for _, name := range names {
		s := l.scope(name)
		if s.cap == (spec.Cap{}) {
			continue
		}
		spent := cost.Amount{Tokens: s.spent.Tokens - s.unsettled.Tokens, USD: s.spent.USD - s.unsettled.USD}
		budgets = append(budgets, Budget{
			Scope: name, Cap: s.cap, Spent: spent, Unsettled: s.unsettled, Reserved: s.reserved, Left: s.left(),
		})
	}
	return budgets
}

// Assignments lists those that have a row, sorted.
func (l *Ledger) Assignments() []spec.AssignmentID {
	var ids []spec.AssignmentID
	for name := range l.Rows {
		if id, err := spec.ParseAssignmentID(name); err == nil {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b spec.AssignmentID) int {
		return cmp.Or(cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Persona, b.Persona))
	})
	return ids
}
