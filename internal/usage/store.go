package usage

import (
	"context"
	"errors"
	"slices"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/state"
	"github.com/maestro-hive/maestro/internal/store"
)

// Session has the costs of a session in a store.
type Session struct {
	Rows []Row
	// Execution is the status document; zero if there is none, or a damaged one.
	Execution session.Execution
	Account   state.Account
	// Damage is the damage of the status document; then the team and the order of the phases are
	// unknown. nil: there is none.
	Damage error
}

// OfSession reads the costs of a session, in the order of its phases.
func OfSession(ctx context.Context, s *store.Store, key session.Key) (read Session, err error) {
	// The status is read first, so that the costs are not older.
	e, err := s.State.Execution(ctx, key)
	switch {
	case errors.Is(err, session.ErrCorrupt):
		read.Damage = err
		e = session.Execution{}
	case errors.Is(err, session.ErrNotFound):
		e = session.Execution{}
	case err != nil:
		return read, err
	}
	read.Execution = e
	if read.Account, err = s.State.Account(ctx, key); err != nil {
		return read, err
	}
	for _, c := range read.Account.Costs {
		row := Row{Team: e.Team, Session: key.Session, Phase: c.Phase, Persona: c.Persona, Agent: c.Agent, Model: c.Model, Day: c.Day, Spending: Of(c)}
		read.Rows = append(read.Rows, row)
	}
	order := map[string]int{}
	for i, p := range e.Phases {
		order[p.Name] = i - len(e.Phases) // before phases that the team does not have any more
	}
	slices.SortStableFunc(read.Rows, func(x, y Row) int { return order[x.Phase] - order[y.Phase] })
	return read, nil
}

// Of is the spending of a sum of calls.
func Of(c state.Cost) Spending {
	s := Spent(c.Calls, c.Usage)
	s.Unsettled = Unsettled{c.Unsettled, cost.Usage{OutputTokens: c.Estimated.Tokens, CostUSD: c.Estimated.USD}}
	s.Reserved = Reserved{c.Begun, c.Reserved}
	return s
}
