package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

// ledgerOf reads what the store knows of a session's costs: its status document,
// zero if there is none, and its ledger. Damage is printed.
func (a *app) ledgerOf(s *store.Store, key session.Key) (session.Execution, budget.Ledger, error) {
	// The state is read first, so that the ledger is not older.
	e, err := s.Execution(key)
	switch {
	case errors.Is(err, session.ErrCorrupt):
		a.printErr("damaged: %s", err)
	case err != nil && !errors.Is(err, session.ErrNotFound):
		return e, budget.Ledger{}, err
	}
	if err != nil {
		e = session.Execution{}
	}
	e.Session = key.Session
	l, err := s.Ledger(key)
	return e, l, err
}

// sessionCosts are the costs and budgets of one session.
func (a *app) sessionCosts(_ context.Context, sessionID string) ([]usageRow, []budgetLine, error) {
	s, key, err := a.stored(sessionID)
	if err != nil {
		return nil, nil, err
	}
	e, l, err := a.ledgerOf(s, key)
	if err != nil {
		return nil, nil, err
	}
	costs, err := costsOf(s, key, e, l)
	return costs, budgetLines(l), err
}

// storeCosts are the costs of all sessions of the namespace, the newest first.
func (a *app) storeCosts(ctx context.Context, s *store.Store) ([]usageRow, error) {
	namespace, err := a.namespace()
	if err != nil {
		return nil, err
	}
	keys, err := s.Sessions(ctx, namespace)
	if err != nil {
		return nil, err
	}
	type sess struct {
		started time.Time
		costs   []usageRow
	}
	var all []sess
	for _, key := range keys {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e, l, err := a.ledgerOf(s, key)
		if err != nil {
			return nil, err
		}
		costs, err := costsOf(s, key, e, l)
		if err != nil {
			return nil, err
		}
		all = append(all, sess{timeOf(e.StartedAt), costs})
	}
	slices.SortStableFunc(all, func(x, y sess) int { return y.started.Compare(x.started) })
	var costs []usageRow
	for _, s := range all {
		costs = append(costs, s.costs...)
	}
	return costs, nil
}

// costsOf takes a session's costs apart, in the order of its phases.
func costsOf(s *store.Store, key session.Key, e session.Execution, l budget.Ledger) ([]usageRow, error) {
	var costs []usageRow
	ids := l.Assignments()
	order := map[string]int{}
	for i, p := range e.Phases {
		order[p.Name] = i - len(e.Phases) // before those that the team has no more
	}
	slices.SortStableFunc(ids, func(x, y spec.AssignmentID) int { return order[x.Phase] - order[y.Phase] })
	for _, id := range ids {
		own := usageRow{Team: e.Team, Session: key.Session, Phase: id.Phase, Persona: id.Persona}
		row, err := rowCosts(s, key, id, own, l.Row(id))
		if err != nil {
			return nil, err
		}
		costs = append(costs, row...)
	}
	return costs, nil
}

// rowCosts takes an assignment's row apart. Of calls whose cost is not known the
// journal says who made them, and when.
func rowCosts(s *store.Store, key session.Key, id spec.AssignmentID, own usageRow, row budget.Row) ([]usageRow, error) {
	var costs []usageRow
	if len(row.Unsettled)+len(row.Reserved) > 0 {
		j, err := s.Journal(key, id)
		if err != nil {
			return nil, err
		}
		set := row.Reserved
		row = j.Row(set)
		for _, c := range slices.Concat(j.Unsettled(), j.Open()) {
			cost := own
			cost.Agent, cost.Model, cost.Day = c.Agent, c.Model, budget.Date(c.BeganAt)
			if c.State == budget.Unsettled {
				cost.Day = budget.Date(c.EndedAt)
				cost.Unsettled = unsettledCalls{1, c.Estimate}
			} else {
				cost.Reserved = reservedCalls{1, row.Reserved[c.ID]}
			}
			costs = append(costs, cost)
		}
	}
	for _, spentOn := range row.Spent {
		cost := own
		cost.Agent, cost.Model, cost.Day, cost.spending = spentOn.Agent, spentOn.Model, spentOn.Date, spent(spentOn.Calls, spentOn.Usage)
		costs = append(costs, cost)
	}
	return costs, nil
}
