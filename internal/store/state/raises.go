package state

import (
	"context"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// raiseRow is a row of raises.
type raiseRow struct {
	ID string
	session.Key
	Scope     session.BudgetScope
	Name, Day string
	cost.Amount
	ByPerson, Via, Note string
	At                  time.Time
}

// AddRaise adds to a budget: of a session, or of the day of r.Team, if the key is empty. A repetition with the same id
// changes nothing. raised is the budget after it; nil if it has no limit.
func (d *DB) AddRaise(ctx context.Context, s session.Key, r budget.Raise, via string) (raised *budget.Budget, err error) {
	kind, name := budget.Split(r.Scope)
	of := budgetOwner(s, kind)
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		if kind == session.BudgetOfDay {
			name = r.Team
		}
		row := raiseRow{
			ID: r.ID, Key: of, Scope: kind, Name: name, Day: dayOfBudget(kind, dayOf(now)),
			Amount: r.Added, ByPerson: r.By, Via: via, Note: r.Note, At: timeOf(now),
		}
		if _, err := t.insertNew("raises", columnsOf(&row).withDigest()); err != nil {
			return fmt.Errorf("raise the budget of %s: %w", budget.Label(r.Scope), err)
		}
		budgets, err := t.budgets(Assignment{Key: s}, r.Team, dayOf(now), "")
		if err != nil {
			return err
		}
		raised = nil
		for i, b := range budgets {
			if b.Kind == kind && b.Name == name {
				raised = &budgets[i]
				for j := range b.Warnings {
					b.Warnings[j].Spent, b.Warnings[j].Cap = b.Held(), b.Cap
				}
				if err := t.setWarnings(of, b, b.Warnings); err != nil { // the others may be repeated
					return err
				}
			}
		}
		return t.changed(s)
	})
	return raised, err
}

// raises lists the raises of a session, and those of its team's days since a time, oldest first. Without a session they are
// the team's.
func (t *Tx) raises(s session.Key, team string, since int64) (all []budget.Raise, err error) {
	rows, err := query[raiseRow](t, `select `+columnsOf(new(raiseRow)).names()+` from raises
		where namespace = $1 and session = $2 and session <> ''
			or namespace = '' and session = '' and scope = 'day' and name = $3 and at >= $4
		order by at, id`, s.Namespace, s.Session, team, since)
	for _, r := range rows {
		one := budget.Raise{ID: r.ID, Scope: budget.ScopeOf(r.Scope, r.Name), By: r.ByPerson, Note: r.Note, Added: r.Amount, When: r.At}
		if r.Scope == session.BudgetOfDay {
			one.Team = r.Name
		}
		all = append(all, one)
	}
	return all, err
}
