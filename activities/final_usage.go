package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/budget"
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

// errAssignmentLocked: an assignment's usage cannot be booked, because an executor still has its lock.
var errAssignmentLocked = errors.New("assignment locked")

// bookUsage updates the ledger of a session that ends. Calls that were in flight when their
// worker was lost become unsettled.
func (b *Boundaries) bookUsage(ctx context.Context, phases []session.PhaseStatus) {
	key := sessionKey(activity.GetInfo(ctx))
	ledger, err := b.Ledgers.Ledger(key)
	if err != nil {
		activity.GetLogger(ctx).Warn("the session's cost is not final", "error", err)
		return
	}
	r := usageReader{b.Programs, b.WorkDirs, b.Sessions, b.Ledgers, b.Clock}
	for _, p := range phases {
		for _, a := range p.Assignments {
			id := spec.AssignmentID{Phase: p.Name, Persona: a.Persona}
			if err := r.book(key, id, ledger.Row(id)); err != nil && !errors.Is(err, errAssignmentLocked) {
				activity.GetLogger(ctx).Warn("an assignment's cost is not final", "assignment", id.String(), "error", err)
			}
		}
	}
}

// release releases the reservations of calls of earlier incarnations that have no executor.
// Otherwise calls of this incarnation would wait for them.
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
		err := usageReader{r.Programs, r.WorkDirs, r.Sessions, r.Ledgers, r.Clock}.book(r.key, id, row)
		if err != nil && !errors.Is(err, errAssignmentLocked) { // who is at work is fenced off, and gives up its own
			return err
		}
	}
	return nil
}

// usageReader books the cost of assignments that have no executor.
type usageReader struct {
	programs ProgramUsage
	workDirs WorkDirs
	sessions Sessions
	ledgers  Ledgers
	clock    Clock
}

// book updates an assignment's row in the ledger.
func (r usageReader) book(key session.Key, id spec.AssignmentID, row budget.Row) error {
	journal, err := r.ledgers.Journal(key, id)
	if err != nil || len(journal.Calls())+len(row.Reserved) == 0 {
		return err
	}
	if len(journal.Open())+len(row.Reserved) > 0 {
		lock, ok, err := r.sessions.Lock(key, id)
		if err != nil {
			return err
		}
		if !ok {
			return errAssignmentLocked
		}
		defer lock.Unlock()
		if journal, err = r.ledgers.Journal(key, id); err != nil { // it may have grown
			return err
		}
		for _, call := range journal.Open() {
			e := unsettled(r.programs, r.workDirs, key, id, call)
			e.Seq, e.At = journal.Next(), r.clock().UTC()
			if err := r.ledgers.AppendEntry(key, id, e); err != nil {
				return err
			}
			if err := journal.Apply(e); err != nil {
				return err
			}
		}
	}
	return r.ledgers.UpdateLedger(key, func(l *budget.Ledger) error {
		l.SetRow(id, journal.Row(nil), r.clock().UTC())
		return nil
	})
}
