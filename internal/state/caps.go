package state

import (
	"context"
	"fmt"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
)

// Cap is the limit of a budget; zero in a dimension that is not limited.
type Cap struct {
	Scope session.BudgetScope
	// Name is that of the phase, the persona or the team; empty for a session.
	Name  string
	Limit cost.Amount
}

// setCaps replaces a session's limits, and that of its team's day, which the session that was admitted last decides.
// Raises are kept.
func (t *Tx) setCaps(s session.Key, team string, caps []Cap) error {
	if _, err := t.exec(`delete from caps where namespace = $1 and session = $2 or namespace = '' and session = '' and scope = 'day' and name = $3`,
		s.Namespace, s.Session, team); err != nil {
		return err
	}
	for _, c := range caps {
		of := s
		if c.Scope == session.BudgetOfDay {
			of = session.Key{}
		}
		if _, err := t.exec(`insert into caps (namespace, session, scope, name, tokens, nano_usd, warned) values ($1, $2, $3, $4, $5, $6, '[]')`,
			of.Namespace, of.Session, string(c.Scope), c.Name, c.Limit.Tokens, int64(c.Limit.USD)); err != nil {
			return err
		}
	}
	return nil
}

// Raise is what a person has added to a budget.
type Raise struct {
	// ID is that of the change: a repetition changes nothing.
	ID string
	// Key is empty for a team's day.
	session.Key
	Scope session.BudgetScope
	Name  string
	// Day is the UTC day of a raise of a team's day; empty for others.
	Day           string
	Added         cost.Amount
	By, Via, Note string
}

// AddRaise adds to a budget.
func (d *DB) AddRaise(ctx context.Context, r Raise) error {
	return d.Write(ctx, func(t *Tx) error {
		now, err := t.Now()
		if err != nil {
			return err
		}
		all := columns{
			{"id", &r.ID},
			{"namespace", &r.Namespace},
			{"session", &r.Session},
			{"scope", &r.Scope},
			{"name", &r.Name},
			{"day", &r.Day},
			{"tokens", &r.Added.Tokens},
			{"nano_usd", &r.Added.USD},
			{"by_person", &r.By},
			{"via", &r.Via},
			{"note", &r.Note},
			{"at", &now},
		}.withDigest()
		if _, err := t.exec("insert into raises ("+all.names()+") values ("+all.places()+") on conflict (id) do nothing", all.values()...); err != nil {
			return fmt.Errorf("raise the budget of %s %s: %w", r.Scope, r.Name, err)
		}
		return nil
	})
}
