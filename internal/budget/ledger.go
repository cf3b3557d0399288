package budget

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/spec"
)

// LedgerSchema names the format of a [Ledger].
const LedgerSchema = "maestro.ledger/v1"

// Ledger is what a session has spent, by assignment, what is reserved for calls in progress, and
// its limits. It is a sum of journals and can be rebuilt from them at any time.
type Ledger struct {
	Schema   string `json:"schema"`
	Revision int64  `json:"revision"`
	// Session is the session's name, and Team its team's.
	Session string `json:"session,omitempty"`
	Team    string `json:"team,omitempty"`
	// Limits are the team's; Raises were added to them, oldest first.
	Limits Limits  `json:"limits"`
	Raises []Raise `json:"raises,omitempty"`
	// Rows are the assignments', by "phase/persona".
	Rows map[string]Row `json:"rows"`
	// Warnings are the warnings so far, oldest first.
	Warnings []Warning `json:"warnings,omitempty"`

	// day is that of the team, while both are changed together; nil: the session draws from no day.
	day *Day
}

// Warning records that a fraction of a cap is spent.
type Warning struct {
	Scope string `json:"scope"`
	// At is the fraction of the cap, one of the limits' WarnAt.
	At    float64     `json:"at"`
	Spent cost.Amount `json:"spent"`
	Cap   spec.Cap    `json:"cap"`
	When  time.Time   `json:"when"`
}

// rowName is the key of an assignment's row.
func rowName(id spec.AssignmentID) string { return id.String() }

// Row returns an assignment's row; empty if it has none.
func (l *Ledger) Row(id spec.AssignmentID) Row { return l.Rows[rowName(id)] }

// SetRow replaces an assignment's row with the sums of its journal, and adds the warnings that are
// then due.
func (l *Ledger) SetRow(id spec.AssignmentID, row Row, now time.Time) []Warning {
	if l.Rows == nil {
		l.Rows = map[string]Row{}
	}
	l.Rows[rowName(id)] = row
	return l.warn(id, now)
}

// Usage is the sum of all known costs of the session.
func (l *Ledger) Usage() cost.Usage {
	var sum cost.Usage
	for _, r := range l.Rows {
		sum = sum.Add(r.Usage())
	}
	return sum
}

// Unsettled is the sum of the estimates of unsettled calls.
func (l *Ledger) Unsettled() cost.Usage {
	var sum cost.Usage
	for _, r := range l.Rows {
		sum = sum.Add(r.Estimated())
	}
	return sum
}

// Reserved is the sum of what is reserved for calls in progress.
func (l *Ledger) Reserved() cost.Amount {
	var sum cost.Amount
	for _, r := range l.Rows {
		_, reserved := r.held()
		sum = sum.Add(reserved)
	}
	return sum
}

// Largest is the highest cost of one call of an agent in this session; ok reports whether there was
// a call with a useful answer, or with a cost.
func (l *Ledger) Largest(agent string) (dearest cost.Amount, ok bool) {
	for _, r := range l.Rows {
		for _, s := range r.Spent {
			if s.Agent == agent {
				ok = ok || s.Answered > 0 || s.Largest != cost.Amount{}
				dearest = most(dearest, s.Largest)
			}
		}
	}
	return dearest, ok
}

// Guess is the assumed cost of an attempt of an agent without a stated cost: that of its most
// expensive attempt so far, in the session or else on the team's day. The very first attempt gets
// the whole remaining budget.
func (l *Ledger) Guess(agent string) (want, least cost.Amount) {
	if most, ok := l.Largest(agent); ok {
		return most, most
	}
	if l.day != nil {
		if most, ok := l.day.Largest[agent]; ok {
			return most, most
		}
	}
	return cost.Amount{Tokens: whatever, USD: whatever}, cost.Amount{Tokens: 1, USD: 1}
}

// whatever is requested for a call that may use the whole budget. It is far above any spending, and
// small enough for the sum of two.
const whatever = math.MaxInt64 / 4

// booked is the part of a grant that is reserved. A dimension that is still unlimited has no
// budget, and would make the sums useless.
func booked(granted cost.Amount) cost.Amount {
	if granted.Tokens >= whatever {
		granted.Tokens = 0
	}
	if granted.USD >= whatever {
		granted.USD = 0
	}
	return granted
}

// SessionScope names the budget of a whole session.
const SessionScope = "session"

// PhaseScope and PersonaScope name the budgets of its parts.
func PhaseScope(phase string) string { return "phase " + phase }

// PersonaScope names a persona's budget.
func PersonaScope(persona string) string { return "persona " + persona }

// Part returns the phase or the persona whose budget has a name; both are empty for other budgets.
func Part(scope string) (phase, persona string) {
	_, name, _ := strings.Cut(scope, " ")
	switch scope {
	case PhaseScope(name):
		return name, ""
	case PersonaScope(name):
		return "", name
	}
	return "", ""
}

// scope is one budget from which a call draws.
type scope struct {
	name string
	cap  spec.Cap
	// spent includes unsettled estimates.
	spent, unsettled, reserved cost.Amount
}

// left is what is neither spent nor reserved; a negative dimension is not limited.
func (s scope) left() cost.Amount {
	return left(s.cap, s.spent.Add(s.reserved))
}

// scopes are the budgets from which an assignment's calls draw, without those that have no cap.
func (l *Ledger) scopes(id spec.AssignmentID) []scope {
	var scopes []scope
	for _, name := range []string{PersonaScope(id.Persona), PhaseScope(id.Phase), SessionScope} {
		if s := l.scope(name); s.cap != (spec.Cap{}) {
			scopes = append(scopes, s)
		}
	}
	if s := l.dayScope(); s.cap != (spec.Cap{}) {
		scopes = append(scopes, s)
	}
	return scopes
}

// scope finds a budget by its name.
func (l *Ledger) scope(name string) scope {
	s := scope{name: name}
	switch kind, which, _ := strings.Cut(name, " "); kind {
	case "persona":
		s.cap = l.Limits.Personas[which]
	case "phase":
		s.cap = l.Limits.Phases[which]
	case DayScope:
		return l.dayScope()
	default:
		s.cap = l.Limits.Session
	}
	s.cap = l.raised(name, s.cap)
	for row, r := range l.Rows {
		if id, err := spec.ParseAssignmentID(row); err == nil && draws(id, name) {
			spent, reserved := r.held()
			s.spent, s.reserved = s.spent.Add(spent), s.reserved.Add(reserved)
			s.unsettled = s.unsettled.Add(r.Estimated().Amount())
		}
	}
	return s
}

// draws reports whether an assignment's calls draw from a budget of the session.
func draws(id spec.AssignmentID, name string) bool {
	switch kind, which, _ := strings.Cut(name, " "); kind {
	case "persona":
		return id.Persona == which
	case "phase":
		return id.Phase == which
	}
	return true
}

// Budget returns a budget's cap, raises included, and its spending.
func (l *Ledger) Budget(name string) (limit spec.Cap, spent cost.Amount) {
	s := l.scope(name)
	return s.cap, s.spent
}

// MayPay reports whether enough is left in a budget of the session for a call.
func (l *Ledger) MayPay(name string, least cost.Amount) bool {
	return covers(l.scope(name).left(), least)
}

// Verdict is the decision whether a call may be made.
type Verdict struct {
	// Granted is what the call may cost.
	Granted cost.Amount
	// Wait: calls in progress may free the missing amount; repeat the request.
	Wait bool
	// Refused names, in a sentence, the budget that cannot pay for the call; empty: the call may be
	// made, or has to wait.
	Refused string
	// Scope names that budget.
	Scope string
	// Unsettled describes unsettled calls that contribute to a refusal: settling them may help.
	Unsettled bool
	// Least is what the refused call needs. Date is the day, if Scope is the team's daily budget.
	Least cost.Amount
	Date  string
}

// Aside is the part of Granted that is reserved: for a call of unknown cost, nothing in a dimension
// that no budget limits.
func (v Verdict) Aside() cost.Amount { return booked(v.Granted) }

// Reserve reserves the possible cost of a call. It grants all of want if that is left. It refuses a
// call that can never fit: least is more than the cap minus what is spent, even without any
// reservation. Otherwise it waits while reservations may free the missing amount, and then grants
// what is left, which covers least. Tokens and money are counted separately.
func (l *Ledger) Reserve(id spec.AssignmentID, call int64, want, least cost.Amount) Verdict {
	l.unreserve(id, call)
	scopes := l.scopes(id)
	for _, s := range scopes {
		if !covers(left(s.cap, s.spent), least) {
			return l.refuse(s, least)
		}
	}
	granted := want
	for _, s := range scopes {
		if s.mayFree(want) {
			return Verdict{Wait: true, Scope: s.name}
		}
		granted = within(s.left(), granted)
	}
	l.setAside(id, call, booked(granted))
	return Verdict{Granted: granted}
}

// mayFree reports whether the release of reservations may free a part of the missing amount.
func (s scope) mayFree(amount cost.Amount) bool {
	left := s.left()
	return left.Tokens >= 0 && amount.Tokens > left.Tokens && s.reserved.Tokens > 0 ||
		left.USD >= 0 && amount.USD > left.USD && s.reserved.USD > 0
}

// setAside records a reservation. It does not change a row that callers may hold.
func (l *Ledger) setAside(id spec.AssignmentID, call int64, amount cost.Amount) {
	row := l.Row(id)
	row.Reserved = maps.Clone(row.Reserved)
	if row.Reserved == nil {
		row.Reserved = map[int64]cost.Amount{}
	}
	row.Reserved[call] = amount
	if l.Rows == nil {
		l.Rows = map[string]Row{}
	}
	l.Rows[rowName(id)] = row
}

// unreserve removes the reservation of an earlier request for the call: a repeated request, whose
// first answer was lost, must not wait for itself.
func (l *Ledger) unreserve(id spec.AssignmentID, call int64) {
	row := l.Row(id)
	if _, ok := row.Reserved[call]; ok {
		row.Reserved = maps.Clone(row.Reserved)
		delete(row.Reserved, call)
		l.Rows[rowName(id)] = row
	}
}

// Extend reserves more for a call in progress that costs more than its reservation. It grants all
// of more if that is left, and otherwise what is left, if that covers least. It never waits,
// because the call continues to spend.
func (l *Ledger) Extend(id spec.AssignmentID, call int64, more, least cost.Amount) Verdict {
	granted := more
	for _, s := range l.scopes(id) {
		left := s.left()
		if !covers(left, least) {
			return l.refuse(s, least)
		}
		granted = within(left, granted)
	}
	l.setAside(id, call, l.Row(id).Reserved[call].Add(granted))
	return Verdict{Granted: granted}
}

// covers reports whether the remaining budget pays for an amount.
func covers(left, amount cost.Amount) bool {
	return (left.Tokens < 0 || amount.Tokens <= left.Tokens) && (left.USD < 0 || amount.USD <= left.USD)
}

// within limits an amount to what is left.
func within(left, amount cost.Amount) cost.Amount {
	if left.Tokens >= 0 {
		amount.Tokens = min(amount.Tokens, left.Tokens)
	}
	if left.USD >= 0 {
		amount.USD = min(amount.USD, left.USD)
	}
	return amount
}

// left is what remains of a cap; a negative dimension is not limited.
func left(limit spec.Cap, used cost.Amount) cost.Amount {
	free := func(limit, used int64) int64 {
		if limit <= 0 {
			return -1
		}
		return max(limit-used, 0)
	}
	return cost.Amount{Tokens: free(limit.Tokens, used.Tokens), USD: cost.USD(free(int64(limit.USD), int64(used.USD)))}
}

// most is the larger of both, each dimension separately.
func most(a, b cost.Amount) cost.Amount {
	return cost.Amount{Tokens: max(a.Tokens, b.Tokens), USD: max(a.USD, b.USD)}
}

// fraction is how much of a budget is spent: the larger of tokens and money.
func (s scope) fraction() float64 {
	return fraction(s.spent, s.cap)
}

func fraction(spent cost.Amount, limit spec.Cap) float64 {
	var f float64
	if limit.Tokens > 0 {
		f = float64(spent.Tokens) / float64(limit.Tokens)
	}
	if limit.USD > 0 {
		f = max(f, float64(spent.USD)/float64(limit.USD))
	}
	return f
}

// warn adds the warnings that are due for an assignment's budgets, once each for every cap.
func (l *Ledger) warn(id spec.AssignmentID, now time.Time) []Warning {
	var due []Warning
	for _, s := range l.scopes(id) {
		given := l.Warnings
		if s.name == DayScope {
			given = l.day.Warnings
		}
		for _, at := range l.Limits.WarnAt {
			if s.fraction() >= at && !slices.ContainsFunc(given, func(w Warning) bool { return w.Scope == s.name && w.At == at }) {
				w := Warning{Scope: s.name, At: at, Spent: s.spent, Cap: s.cap, When: now}
				due = append(due, w)
				if s.name == DayScope {
					l.day.Warnings = append(l.day.Warnings, w)
				} else {
					l.Warnings = append(l.Warnings, w)
				}
			}
		}
	}
	return due
}

// reviewed are the warnings after a raise: those that are no longer true are removed, and may be
// repeated; the others get the new cap.
func reviewed(warnings []Warning, name string, spent cost.Amount, limit spec.Cap) []Warning {
	var out []Warning
	for _, w := range warnings {
		if w.Scope == name {
			if fraction(spent, limit) < w.At {
				continue
			}
			w.Spent, w.Cap = spent, limit
		}
		out = append(out, w)
	}
	return out
}

// Fractions returns how much of each budget of an assignment is spent.
func (l *Ledger) Fractions(id spec.AssignmentID) map[string]float64 {
	out := map[string]float64{}
	for _, s := range l.scopes(id) {
		out[s.name] = s.fraction()
	}
	return out
}
