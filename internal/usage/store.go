package usage

import (
	"errors"
	"slices"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

// Session has the costs of a session in a store.
type Session struct {
	Rows []Row
	// Execution is the status document; zero if there is none, or a damaged one.
	Execution session.Execution
	Ledger    budget.Ledger
	// Damage is the damage of the status document; then the team and the order of the phases are
	// unknown. nil: there is none.
	Damage error
}

// OfSession reads the costs of a session, in the order of its phases.
func OfSession(s *store.Store, key session.Key) (read Session, err error) {
	// The state is read first, so that the ledger is not older.
	e, err := s.Execution(key)
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
	if read.Ledger, err = s.Ledger(key); err != nil {
		return read, err
	}
	ids := read.Ledger.Assignments()
	order := map[string]int{}
	for i, p := range e.Phases {
		order[p.Name] = i - len(e.Phases) // before phases that the team does not have any more
	}
	slices.SortStableFunc(ids, func(x, y spec.AssignmentID) int { return order[x.Phase] - order[y.Phase] })
	for _, id := range ids {
		own := Row{Team: e.Team, Session: key.Session, Phase: id.Phase, Persona: id.Persona}
		rows, err := ofAssignment(s, key, id, own, read.Ledger.Row(id))
		if err != nil {
			return read, err
		}
		read.Rows = append(read.Rows, rows...)
	}
	return read, nil
}

// ofAssignment splits an assignment's row. The journal has the agents and times of calls with
// unknown cost.
func ofAssignment(s *store.Store, key session.Key, id spec.AssignmentID, own Row, row budget.Row) ([]Row, error) {
	var rows []Row
	if len(row.Unsettled)+len(row.Reserved) > 0 {
		j, err := s.Journal(key, id)
		if err != nil {
			return nil, err
		}
		row = j.Row(row.Reserved)
		for _, c := range slices.Concat(j.Unsettled(), j.Open()) {
			call := own
			call.Agent, call.Model, call.Day = c.Agent, c.Model, budget.Date(c.BeganAt)
			if c.State == budget.Unsettled {
				call.Day = budget.Date(c.EndedAt)
				call.Unsettled = Unsettled{1, c.Estimate}
			} else {
				call.Reserved = Reserved{1, row.Reserved[c.ID]}
			}
			rows = append(rows, call)
		}
	}
	for _, spent := range row.Spent {
		known := own
		known.Agent, known.Model, known.Day, known.Spending = spent.Agent, spent.Model, spent.Date, Spent(spent.Calls, spent.Usage)
		rows = append(rows, known)
	}
	return rows, nil
}
