package state

import (
	"context"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Account is what a session has cost, and what it may cost.
type Account struct {
	Team string
	// Costs are those of its calls, by phase, persona, agent, model and day, the newest day first.
	Costs []Cost
	// Budgets are those of the session and of its team's day, and Raises what people have added to them since the session
	// began.
	Budgets []budget.Budget
	Raises  []budget.Raise
}

// Account reads a session's costs and budgets; it is empty for a session without any.
func (d *DB) Account(ctx context.Context, s session.Key) (a Account, err error) {
	err = d.readAt(ctx, func(t *Tx, now int64) error {
		a = Account{}
		started := now
		err = t.row(`select team, started_at from sessions where namespace = $1 and session = $2`, s.Namespace, s.Session).Scan(&a.Team,
			&started)
		if err != nil && !isNoRows(err) {
			return err
		}
		by := []string{"phase", "persona", "agent", "model", "day"}
		if a.Costs, err = t.usage(by, "", Filter{Namespace: s.Namespace, Session: s.Session}); err != nil {
			return err
		}
		if a.Budgets, err = t.budgets(Assignment{Key: s}, a.Team, dayOf(now), ""); err != nil {
			return err
		}
		a.Raises, err = t.raises(s, a.Team, started)
		return err
	})
	return a, err
}

// Sum adds up costs; of an assignment alone, if one is given.
func Sum(costs []Cost, of spec.AssignmentID) (sum Cost) {
	for _, c := range costs {
		if of != (spec.AssignmentID{}) && (c.Phase != of.Phase || of.Persona != "" && c.Persona != of.Persona) {
			continue
		}
		sum.Spending = sum.Add(c.Spending)
	}
	return sum
}

// Of sums the costs of an assignment, of a phase if the persona is empty, or of the session.
func (a *Account) Of(id spec.AssignmentID) Cost { return Sum(a.Costs, id) }

// Usage is the known cost of the session.
func (a *Account) Usage() cost.Usage { return a.Of(spec.AssignmentID{}).Usage }

// AddTo adds the costs to a status. Its usage is the known cost; so is that of assignments and requests.
func (a *Account) AddTo(s session.Status) session.Status {
	s = s.Clone()
	sum := a.Of(spec.AssignmentID{})
	s.Usage, s.Dropped, s.Reserved = sum.Usage, sum.Usage, sum.Reserved.Amount
	s.Unsettled = cost.Usage{OutputTokens: sum.Unsettled.Tokens, CostUSD: sum.Unsettled.USD}
	for i, p := range s.Phases {
		for j, as := range p.Assignments {
			used := a.Of(spec.AssignmentID{Phase: p.Name, Persona: as.Persona}).Usage
			s.Phases[i].Assignments[j].Usage = used
			s.Dropped = s.Dropped.Minus(used)
		}
	}
	for i, h := range s.Help {
		s.Help[i].Usage = a.Of(spec.AssignmentID{Phase: h.Phase, Persona: h.Persona}).Usage // an assignment's, or a phase's
	}
	return s
}

// Budget is a budget by its scope. One without a limit has no figures, but for the session's.
func (a *Account) Budget(scope string) budget.Budget {
	for _, b := range a.Budgets {
		if b.Scope() == scope {
			return b
		}
	}
	kind, name := budget.Split(scope)
	b := budget.Budget{Kind: kind, Name: name}
	if kind == session.BudgetOfSession {
		sum := a.Of(spec.AssignmentID{})
		b.Spent, b.Unsettled, b.Reserved = sum.Usage.Amount(), sum.Unsettled.Amount, sum.Reserved.Amount
	}
	return b
}
