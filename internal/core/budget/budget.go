package budget

import (
	"math"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Budget is a limit with what was spent of it.
type Budget struct {
	Kind session.BudgetScope
	// Name is that of the phase, the persona or the team; empty for a session.
	Name string
	// Day is the UTC day that a team's budget is for, and empty for others.
	Day string
	// Base is the team file's limit, and Cap the limit with all raises; zero in a dimension that is not limited.
	Base, Cap spec.Cap
	// Spent is the known cost, Unsettled the estimates of unsettled calls, and Reserved what is reserved for calls in
	// progress.
	Spent, Unsettled, Reserved cost.Amount
	// Warnings are the thresholds that were reached, oldest first.
	Warnings []Warning
}

// Warning records that a fraction of a cap is spent.
type Warning struct {
	Scope string `json:"scope"`
	// At is the fraction of the cap, one of the team file's.
	At    float64     `json:"at"`
	Spent cost.Amount `json:"spent"`
	Cap   spec.Cap    `json:"cap"`
	When  time.Time   `json:"when"`
}

// Raise is what a person has added to a budget.
type Raise struct {
	// ID identifies a raise, so a raise that is recorded twice counts once.
	ID string `json:"id"`
	// Scope names the budget.
	Scope string `json:"scope"`
	// Team is that of a raised day.
	Team  string      `json:"team,omitempty"`
	By    string      `json:"by,omitempty"`
	Note  string      `json:"note,omitempty"`
	Added cost.Amount `json:"added"`
	When  time.Time   `json:"when"`
}

// Unlimited is what is left of a dimension that no budget limits, and what is requested for a call that may use the whole
// budget. It is far above any spending, and small enough for the sum of two.
const Unlimited = math.MaxInt64 / 4

// Scope names the budget.
func (b Budget) Scope() string { return ScopeOf(b.Kind, b.Name) }

// Held is what the budget has lost for good: the known cost and the estimates.
func (b Budget) Held() cost.Amount { return b.Spent.Add(b.Unsettled) }

// Left is what is neither spent nor reserved; [Unlimited] in a dimension that is not limited.
func (b Budget) Left() cost.Amount { return b.minus(b.Held().Add(b.Reserved)) }

func (b Budget) minus(used cost.Amount) cost.Amount {
	left := cost.Amount{Tokens: Unlimited, USD: Unlimited}
	if b.Cap.Tokens > 0 {
		left.Tokens = max(b.Cap.Tokens-used.Tokens, 0)
	}
	if b.Cap.USD > 0 {
		left.USD = max(b.Cap.USD-used.USD, 0)
	}
	return left
}

// Covers reports whether an amount is within what is left.
func (b Budget) Covers(amount cost.Amount) bool { return covers(b.Left(), amount) }

func covers(left, amount cost.Amount) bool {
	return amount.Tokens <= left.Tokens && amount.USD <= left.USD
}

// Fraction is how much of the budget is spent: the larger of tokens and money.
func (b Budget) Fraction() float64 {
	var f float64
	if b.Cap.Tokens > 0 {
		f = float64(b.Held().Tokens) / float64(b.Cap.Tokens)
	}
	if b.Cap.USD > 0 {
		f = max(f, float64(b.Held().USD)/float64(b.Cap.USD))
	}
	return f
}

// Due lists the warnings for fractions of the cap that are reached, and were not warned of.
func (b Budget) Due(at []float64, now time.Time) (due []Warning) {
	for _, fraction := range at {
		if b.Fraction() >= fraction && !slices.ContainsFunc(b.Warnings, func(w Warning) bool { return w.At == fraction }) {
			due = append(due, Warning{Scope: b.Scope(), At: fraction, Spent: b.Held(), Cap: b.Cap, When: now.UTC()})
		}
	}
	return due
}

// StillTrue are the warnings that hold after a raise; the others may be repeated. Those of a day hold on that day only.
func (b Budget) StillTrue(warnings []Warning) []Warning {
	return slices.DeleteFunc(warnings, func(w Warning) bool {
		return b.Fraction() < w.At || b.Day != "" && Date(w.When) != b.Day
	})
}

// Raised is a cap with what was added to it, which remains a cap for any sum. A dimension without a cap stays without one.
func Raised(limit spec.Cap, added cost.Amount) spec.Cap {
	if limit.Tokens > 0 {
		limit.Tokens += min(added.Tokens, max(Unlimited-1-limit.Tokens, 0))
	}
	if limit.USD > 0 {
		limit.USD += min(added.USD, max(Unlimited-1-limit.USD, 0))
	}
	return limit
}

// Verdict is the decision whether a call may be made.
type Verdict struct {
	// Granted is what the call may cost.
	Granted cost.Amount
	// Wait: calls in progress may free the missing amount; repeat the request.
	Wait bool
	// Refused is the budget that can never pay for the call, or that it waits for; nil: none. Least is what the call needs.
	Refused *Budget
	Least   cost.Amount
}

// Decide grants all of want if every budget has it left. It refuses what can never fit: least is more than a cap minus what
// is spent, even without any reservation. It waits while reservations may free a part of what is missing, and then grants
// what is left. Tokens and money are counted separately.
func Decide(budgets []Budget, want, least cost.Amount) Verdict {
	for i, b := range budgets {
		if !covers(b.minus(b.Held()), least) {
			return Verdict{Refused: &budgets[i], Least: least}
		}
	}
	granted := want
	for i, b := range budgets {
		left := b.Left()
		if want.Tokens > left.Tokens && b.Reserved.Tokens > 0 || want.USD > left.USD && b.Reserved.USD > 0 {
			return Verdict{Wait: true, Refused: &budgets[i], Least: least}
		}
		granted = cost.Amount{Tokens: min(left.Tokens, granted.Tokens), USD: min(left.USD, granted.USD)}
	}
	return Verdict{Granted: granted}
}

// Reservation is the part of a grant that is reserved. A dimension that no budget limits would make the sums useless.
func Reservation(granted cost.Amount) cost.Amount {
	if granted.Tokens >= Unlimited {
		granted.Tokens = 0
	}
	if granted.USD >= Unlimited {
		granted.USD = 0
	}
	return granted
}

// Caps are a team's limits, without raises, in no particular order of personas. Budgets without a limit are left out.
//
//workflowcheck:ignore
func Caps(t spec.Team) (caps []Budget) {
	add := func(kind session.BudgetScope, name string, limit spec.Cap) {
		if limit != (spec.Cap{}) {
			caps = append(caps, Budget{Kind: kind, Name: name, Base: limit, Cap: limit})
		}
	}
	add(session.BudgetOfSession, "", t.Budget.Cap())
	add(session.BudgetOfDay, t.Name, t.Budget.Daily)
	for _, p := range t.Phases {
		add(session.BudgetOfPhase, p.Name, p.Budget)
	}
	for name, p := range t.Personas {
		add(session.BudgetOfPersona, name, p.Budget)
	}
	return caps
}

// CapOf is one of a team's limits, by its scope.
func CapOf(t spec.Team, scope string) spec.Cap {
	for _, b := range Caps(t) {
		if b.Scope() == scope {
			return b.Cap
		}
	}
	return spec.Cap{}
}
