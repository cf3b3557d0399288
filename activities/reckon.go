package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/team"
)

// Raise adds to a budget of the session. The calls that wait for it see it at once.
func (b *Boundaries) Raise(ctx context.Context, in RaiseInput) (Raised, error) {
	out := Raised{Scope: in.Scope}
	in.When = b.Clock().UTC()
	err := b.Ledgers.UpdateLedger(sessionKey(activity.GetInfo(ctx)), func(l *budget.Ledger) error {
		l.Raise(in.Raise)
		out.Cap, out.Spent = l.Budget(in.Scope)
		return nil
	})
	return out, storeError(err)
}

// errAtWork ends the reckoning of an assignment that somebody still works on.
var errAtWork = errors.New("somebody still works on it")

// reckon adds up what the assignments of a session that ends have cost. Calls that
// were under way when their worker was lost are unsettled from now on.
func (b *Boundaries) reckon(ctx context.Context, key team.SessionKey) map[team.AssignmentID]team.Usage {
	spent := map[team.AssignmentID]team.Usage{}
	e, err := b.Sessions.Execution(key)
	if err != nil {
		return spent
	}
	for _, p := range e.Phases {
		for _, a := range p.Assignments {
			id := team.AssignmentID{Phase: p.Name, Persona: a.Persona}
			used, err := b.reckonOne(key, id)
			switch {
			case errors.Is(err, errAtWork):
			case err != nil:
				activity.GetLogger(ctx).Warn("what an assignment has cost is not known for certain", "assignment", id.String(), "error", err)
			case used != team.Usage{}:
				spent[id] = used
			}
		}
	}
	return spent
}

func (b *Boundaries) reckonOne(key team.SessionKey, id team.AssignmentID) (team.Usage, error) {
	journal, err := b.Ledgers.Journal(key, id)
	if err != nil || len(journal.Calls()) == 0 {
		return team.Usage{}, err
	}
	if len(journal.Open()) > 0 {
		lock, ok, err := b.Sessions.Lock(key, id)
		if err != nil {
			return team.Usage{}, err
		}
		if !ok {
			return team.Usage{}, errAtWork
		}
		defer lock.Unlock()
		if journal, err = b.Ledgers.Journal(key, id); err != nil { // it may have grown
			return team.Usage{}, err
		}
		for _, call := range journal.Open() {
			e := budget.Entry{Seq: journal.Next(), At: b.Clock().UTC(), Kind: budget.Unsettled, Call: call.ID}
			if err := b.Ledgers.AppendEntry(key, id, e); err != nil {
				return team.Usage{}, err
			}
			if err := journal.Apply(e); err != nil {
				return team.Usage{}, err
			}
		}
	}
	return journal.Spent(), b.Ledgers.UpdateLedger(key, func(l *budget.Ledger) error {
		l.SetRow(id, journal.Row(nil), b.Clock().UTC())
		return nil
	})
}
