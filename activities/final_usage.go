package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
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
var errAtWork = errors.New("assignment locked")

// finalUsage adds up what the assignments of a session that ends have cost. Calls that
// were under way when their worker was lost are unsettled from now on.
func (b *Boundaries) finalUsage(ctx context.Context, key session.Key, phases []session.PhaseStatus) map[spec.AssignmentID]cost.Usage {
	spent := map[spec.AssignmentID]cost.Usage{}
	ledger, err := b.Ledgers.Ledger(key)
	if err != nil {
		activity.GetLogger(ctx).Warn("the session's cost is not final", "error", err)
		return spent
	}
	r := usageReader{b.Programs, b.Sessions, b.Ledgers, b.Clock}
	for _, p := range phases {
		for _, a := range p.Assignments {
			id := spec.AssignmentID{Phase: p.Name, Persona: a.Persona}
			used, err := r.one(key, id, ledger.Row(id))
			switch {
			case errors.Is(err, errAtWork):
			case err != nil:
				activity.GetLogger(ctx).Warn("an assignment's cost is not final", "assignment", id.String(), "error", err)
			case used != cost.Usage{}:
				spent[id] = used
			}
		}
	}
	return spent
}

// release gives up what is set aside for calls of earlier incarnations that nobody
// works on any more: calls of this one would wait for them, and so might whoever
// is to take them up.
func (r *restoration) release() error {
	if r.in.Incarnation == 1 {
		return nil
	}
	ledger, err := r.Ledgers.Ledger(r.key)
	if err != nil {
		return err
	}
	for _, id := range ledger.Assignments() {
		row := ledger.Row(id)
		if len(row.Reserved) == 0 {
			continue
		}
		_, err := usageReader{r.Programs, r.Sessions, r.Ledgers, r.Clock}.one(r.key, id, row)
		if err != nil && !errors.Is(err, errAtWork) { // who is at work is fenced off, and gives up its own
			return err
		}
	}
	return nil
}

// usageReader adds up what assignments have cost on which nobody works any more.
type usageReader struct {
	programs ProgramUsage
	sessions Sessions
	ledgers  Ledgers
	clock    Clock
}

// one returns what an assignment has cost, and brings its row in the ledger, which
// is given, up to date.
func (r usageReader) one(key session.Key, id spec.AssignmentID, row budget.Row) (cost.Usage, error) {
	journal, err := r.ledgers.Journal(key, id)
	if err != nil || len(journal.Calls())+len(row.Reserved) == 0 {
		return cost.Usage{}, err
	}
	if len(journal.Open())+len(row.Reserved) > 0 {
		lock, ok, err := r.sessions.Lock(key, id)
		if err != nil {
			return cost.Usage{}, err
		}
		if !ok {
			return cost.Usage{}, errAtWork
		}
		defer lock.Unlock()
		if journal, err = r.ledgers.Journal(key, id); err != nil { // it may have grown
			return cost.Usage{}, err
		}
		for _, call := range journal.Open() {
			e := unsettled(r.programs, r.sessions, key, id, call)
			e.Seq, e.At = journal.Next(), r.clock().UTC()
			if err := r.ledgers.AppendEntry(key, id, e); err != nil {
				return cost.Usage{}, err
			}
			if err := journal.Apply(e); err != nil {
				return cost.Usage{}, err
			}
		}
	}
	return journal.Spent(), r.ledgers.UpdateLedger(key, func(l *budget.Ledger) error {
		l.SetRow(id, journal.Row(nil), r.clock().UTC())
		return nil
	})
}
