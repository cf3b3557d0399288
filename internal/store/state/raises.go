package state

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// AddRaise adds to a budget: of a session, or of the day of r.Team, if the key is empty. A repetition with the same id
// changes nothing. raised is the budget after it; nil if it has no limit.
func (d *DB) AddRaise(ctx context.Context, s session.Key, r budget.Raise, via string) (raised *budget.Budget, err error) {
	kind, name := budget.Split(r.Scope)
	of := budgetOwner(s, kind)
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		day := ""
		if kind == session.BudgetOfDay {
			name, day = r.Team, dayOf(now)
		}
		all := columns{
			{"id", &r.ID},
			{"namespace", &of.Namespace},
			{"session", &of.Session},
			{"scope", &kind},
			{"name", &name},
			{"day", &day},
			{"tokens", &r.Added.Tokens},
			{"nano_usd", &r.Added.USD},
			{"by_person", &r.By},
			{"via", &via},
			{"note", &r.Note},
			{"at", &now},
		}.withDigest()
		if _, err := t.exec("insert into raises ("+all.names()+") values ("+all.places()+") on conflict (id) do nothing",
			all.values()...); err != nil {
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
	err = t.each(func(r *sql.Rows) error {
		var one budget.Raise
		var kind session.BudgetScope
		var name string
		var at int64
		if err := r.Scan(&one.ID, &kind, &name, &one.Added.Tokens, &one.Added.USD, &one.By, &one.Note, &at); err != nil {
			return err
		}
		one.Scope, one.When = budget.ScopeOf(kind, name), time.UnixMicro(at).UTC()
		if kind == session.BudgetOfDay {
			one.Team = name
		}
		all = append(all, one)
		return nil
	}, `select id, scope, name, tokens, nano_usd, by_person, note, at from raises
		where namespace = $1 and session = $2 and session <> ''
			or namespace = '' and session = '' and scope = 'day' and name = $3 and at >= $4
		order by at, id`, s.Namespace, s.Session, team, since)
	return all, err
}
