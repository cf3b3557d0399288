package budget

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Limits are what a session may spend. A zero cap does not limit.
type Limits struct {
	Session  spec.Cap            `json:"session,omitzero"`
	Phases   map[string]spec.Cap `json:"phases,omitempty"`
	Personas map[string]spec.Cap `json:"personas,omitempty"`
	// Daily is what all sessions of the team may spend in a day; see [Day].
	Daily spec.Cap `json:"daily,omitzero"`
	// WarnAt lists the fractions of a cap at which a warning is due.
	WarnAt []float64 `json:"warn_at,omitempty"`
}

// LimitsOf are a team's limits, without raises.
func LimitsOf(t spec.Team) Limits {
	l := Limits{
		Session: t.Budget.Cap(), Phases: map[string]spec.Cap{}, Personas: map[string]spec.Cap{},
		Daily: t.Budget.Daily, WarnAt: t.Budget.WarnAt,
	}
	for _, p := range t.Phases {
		if p.Budget != (spec.Cap{}) {
			l.Phases[p.Name] = p.Budget
		}
	}
	for name, p := range t.Personas {
		if p.Budget != (spec.Cap{}) {
			l.Personas[name] = p.Budget
		}
	}
	return l
}

// CapOf is one of a team's limits, by its scope.
func CapOf(t spec.Team, scope string) spec.Cap {
	switch kind, which, _ := strings.Cut(scope, " "); kind {
	case "persona":
		return t.Personas[which].Budget
	case "phase":
		p, _ := t.Phase(which)
		return p.Budget
	case DayScope:
		return t.Budget.Daily
	}
	return t.Budget.Cap()
}

// IsZero reports whether there is no limit.
func (l Limits) IsZero() bool {
	return l.Session == (spec.Cap{}) && l.Daily == (spec.Cap{}) && len(l.Phases)+len(l.Personas)+len(l.WarnAt) == 0
}

// Equal reports whether both have the same limits.
func (l Limits) Equal(m Limits) bool {
	return l.Session == m.Session && l.Daily == m.Daily && maps.Equal(l.Phases, m.Phases) && maps.Equal(l.Personas, m.Personas) &&
		slices.Equal(l.WarnAt, m.WarnAt)
}

// Raise is what a person has added to a budget.
type Raise struct {
	// ID identifies a raise, so a raise that is recorded twice counts once.
	ID string `json:"id"`
	// Scope names the budget.
	Scope string      `json:"scope"`
	By    string      `json:"by,omitempty"`
	Note  string      `json:"note,omitempty"`
	Added cost.Amount `json:"added"`
	When  time.Time   `json:"when"`
}

// Raise adds to a budget. A repetition with the same id has no effect.
func (l *Ledger) Raise(r Raise) {
	if slices.ContainsFunc(l.Raises, func(before Raise) bool { return before.ID == r.ID }) {
		return
	}
	l.Raises = append(l.Raises, r)
	s := l.scope(r.Scope)
	l.Warnings = reviewed(l.Warnings, r.Scope, s.spent, s.cap)
}

// Limit replaces the session's limits with those of a team. Raises are kept.
func (l *Ledger) Limit(name string, limits Limits) {
	l.Team, l.Limits = name, limits
	for _, w := range slices.Clone(l.Warnings) {
		s := l.scope(w.Scope)
		l.Warnings = reviewed(l.Warnings, w.Scope, s.spent, s.cap)
	}
}

// Allowance is one line of the journal of limits and raises, of a session or a team's day. Limits
// replace those of earlier lines; raises add up.
type Allowance struct {
	// Team is the session's team, and Limits are that team's; nil: unchanged.
	Team   string  `json:"team,omitempty"`
	Limits *Limits `json:"limits,omitempty"`
	// Raise is what a person has added; nil: none.
	Raise *Raise `json:"raise,omitempty"`
}

// Allow applies a line of the journal.
func (l *Ledger) Allow(a Allowance) {
	if a.Limits != nil {
		l.Limit(a.Team, *a.Limits)
	}
	if a.Raise != nil {
		l.Raise(*a.Raise)
	}
}

// AllowedSince lists the lines that the journal needs before a ledger may replace an earlier one.
func (l *Ledger) AllowedSince(limits Limits, name string, raises int) []Allowance {
	var out []Allowance
	if l.Team != name || !l.Limits.Equal(limits) {
		out = append(out, Allowance{Team: l.Team, Limits: &l.Limits})
	}
	for i := range l.Raises[min(raises, len(l.Raises)):] {
		out = append(out, Allowance{Raise: &l.Raises[raises+i]})
	}
	return out
}

// raised is a budget's cap with its raises. A raise does not limit a budget that had no cap.
func (l *Ledger) raised(scope string, limit spec.Cap) spec.Cap {
	for _, r := range l.Raises {
		if r.Scope != scope {
			continue
		}
		limit = raise(limit, r.Added)
	}
	return limit
}
