package budget

import (
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// The budgets by name: SessionScope, "phase NAME", "persona NAME", and DayScope for a team's day, which its sessions share.
const (
	SessionScope = string(session.BudgetOfSession)
	DayScope     = string(session.BudgetOfDay)
)

// PhaseScope names the budget of a phase.
func PhaseScope(phase string) string { return ScopeOf(session.BudgetOfPhase, phase) }

// PersonaScope names a persona's budget.
func PersonaScope(persona string) string { return ScopeOf(session.BudgetOfPersona, persona) }

// ScopeOf names a budget by its kind and the name of the phase or the persona.
func ScopeOf(kind session.BudgetScope, name string) string {
	if kind == session.BudgetOfPhase || kind == session.BudgetOfPersona {
		return string(kind) + " " + name
	}
	return string(kind)
}

// Split is the reverse of [ScopeOf]. Unknown scopes are the session's.
func Split(scope string) (kind session.BudgetScope, name string) {
	first, name, _ := strings.Cut(scope, " ")
	switch kind = session.BudgetScope(first); kind {
	case session.BudgetOfPhase, session.BudgetOfPersona:
		return kind, name
	case session.BudgetOfDay:
		return kind, ""
	case session.BudgetOfSession:
	}
	return session.BudgetOfSession, ""
}

// Part returns the phase or the persona whose budget has a name; both are empty for other budgets.
func Part(scope string) (phase, persona string) {
	switch kind, name := Split(scope); kind {
	case session.BudgetOfPhase:
		return name, ""
	case session.BudgetOfPersona:
		return "", name
	case session.BudgetOfSession, session.BudgetOfDay:
	}
	return "", ""
}

// Label names a budget in a sentence, by its scope.
func Label(scope string) string {
	if scope == SessionScope {
		return "the session"
	}
	return scope
}

// Date is the day, by UTC, for which a cost at this time counts.
func Date(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// NextDay is when a day ends and the next one's budget begins.
func NextDay(date string) time.Time {
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return time.Time{}
	}
	return day.AddDate(0, 0, 1)
}
