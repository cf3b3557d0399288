package state

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// dayOf is the UTC day of a time in microseconds.
func dayOf(micros int64) string { return budget.Date(time.UnixMicro(micros)) }

// setCaps replaces a session's limits, and that of its team's day, which the session that was admitted last decides.
// Raises and warnings are kept.
func (t *Tx) setCaps(s session.Key, team string, caps []budget.Budget) error {
	const these = `where (namespace = $1 and session = $2 or namespace = '' and session = '' and scope = 'day' and name = $3)`
	if _, err := t.exec(`update caps set tokens = 0, nano_usd = 0 `+these, s.Namespace, s.Session, team); err != nil {
		return err
	}
	for _, c := range caps {
		of := budgetOwner(s, c.Kind)
		if _, err := t.exec(`insert into caps (namespace, session, scope, name, tokens, nano_usd, warned) values ($1, $2, $3, $4, $5, $6, '[]')
			on conflict (namespace, session, scope, name) do update set tokens = excluded.tokens, nano_usd = excluded.nano_usd`,
			of.Namespace, of.Session, string(c.Kind), c.Name, c.Base.Tokens, int64(c.Base.USD)); err != nil {
			return err
		}
	}
	_, err := t.exec(`delete from caps `+these+` and tokens = 0 and nano_usd = 0`, s.Namespace, s.Session, team)
	return err
}

// dayOfBudget is the day that a budget is for: only that of a team's day has one.
func dayOfBudget(kind session.BudgetScope, day string) string {
	if kind == session.BudgetOfDay {
		return day
	}
	return ""
}

// budgetOwner is the key of a budget's rows: a team's day belongs to no session.
func budgetOwner(s session.Key, kind session.BudgetScope) session.Key {
	if kind == session.BudgetOfDay {
		return session.Key{}
	}
	return s
}

// Budgets are the budgets that an assignment's calls count against now. Without a phase and a persona, they are all budgets
// of the session and its team's day.
func (d *DB) Budgets(ctx context.Context, a Assignment, team string) (found []budget.Budget, err error) {
	err = d.readAt(ctx, func(t *Tx, now int64) error {
		found, err = t.budgets(a, team, dayOf(now), "")
		return err
	})
	return found, err
}

// budgets reads what an assignment's calls count against. Budgets without a cap are left out. lock ends the query.
func (t *Tx) budgets(a Assignment, team, day, lock string) (found []budget.Budget, err error) {
	caps, err := query[struct {
		Kind   session.BudgetScope
		Name   string
		Base   spec.Cap `sql:"*"`
		Warned []budget.Warning
	}](t, `select scope, name, tokens, nano_usd, warned from caps
		where namespace = $1 and session = $2 and session <> '' and ($3 = '' and $4 = '' or scope = 'session' or scope = 'phase' and name = $3 or scope = 'persona' and name = $4)
			or namespace = '' and session = '' and scope = 'day' and name = $5
		order by namespace, session, scope, name`+lock, a.Namespace, a.Session, a.Phase, a.Persona, team)
	if err != nil {
		return nil, err
	}
	for _, c := range caps {
		found = append(found, budget.Budget{Kind: c.Kind, Name: c.Name, Day: dayOfBudget(c.Kind, day), Base: c.Base})
	}
	if err := t.readSums(found, a.Key); err != nil {
		return nil, err
	}
	for i, c := range caps {
		found[i].Warnings = found[i].StillTrue(c.Warned)
	}
	return found, nil
}

// readSums reads the raises and sums of budgets, in one query: a call's books read them twice.
func (t *Tx) readSums(budgets []budget.Budget, s session.Key) error {
	if len(budgets) == 0 {
		return nil
	}
	const raised = `(select coalesce(sum(%s), 0) from raises where namespace = ? and session = ? and scope = ? and name = ? and day = ?)`
	var each where
	for i, b := range budgets {
		of := budgetOwner(s, b.Kind)
		which, args := paidBy(s, b)
		raises := []any{of.Namespace, of.Session, string(b.Kind), b.Name, b.Day}
		each.add(fmt.Sprintf(`select %d, `+raised+`, `+raised+`, coalesce(sum(tokens), 0), coalesce(sum(nano_usd), 0), %s,
				coalesce(sum(reserved_tokens), 0), coalesce(sum(reserved_nano_usd), 0) from calls where %s`,
			i, "tokens", "nano_usd", unsettledSums, which), slices.Concat(raises, raises, args)...)
	}
	return t.each(func(r *sql.Rows) error {
		var i int
		var raised cost.Amount
		var sums budget.Budget
		if err := r.Scan(&i, &raised.Tokens, &raised.USD, &sums.Spent.Tokens, &sums.Spent.USD, &sums.Unsettled.Tokens,
			&sums.Unsettled.USD, &sums.Reserved.Tokens, &sums.Reserved.USD); err != nil {
			return err
		}
		b := &budgets[i]
		b.Cap = budget.Raised(b.Base, raised)
		b.Spent, b.Unsettled, b.Reserved = sums.Spent, sums.Unsettled, sums.Reserved
		return nil
	}, strings.Join(each.conditions, " union all "), each.args...)
}

// paidBy is the condition on the calls that a budget of a session pays for. Each ? is the place of an
// argument.
func paidBy(s session.Key, b budget.Budget) (which string, args []any) {
	which, args = `namespace = ? and session = ?`, []any{s.Namespace, s.Session}
	switch b.Kind {
	case session.BudgetOfDay:
		return `team = ? and day = ?`, []any{b.Name, b.Day}
	case session.BudgetOfPhase:
		return which + ` and phase = ?`, append(args, b.Name)
	case session.BudgetOfPersona:
		return which + ` and persona = ?`, append(args, b.Name)
	case session.BudgetOfSession:
	}
	return which, args
}

// unsettledSums are the sums of the estimates of unsettled calls.
const unsettledSums = `coalesce(sum(case when state = 'unsettled' then estimated_tokens else 0 end), 0),
	coalesce(sum(case when state = 'unsettled' then estimated_nano_usd else 0 end), 0)`

// Warn records the thresholds of an assignment's budgets that are reached, once each, and returns the new ones. It also
// returns the budgets.
func (d *DB) Warn(ctx context.Context, a Assignment, team string, at []float64) (due []budget.Warning, budgets []budget.Budget,
	err error,
) {
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		due = nil
		if budgets, err = t.budgets(a, team, dayOf(now), t.lockRows); err != nil {
			return err
		}
		for _, b := range budgets {
			more := b.Due(at, time.UnixMicro(now))
			if len(more) == 0 {
				continue
			}
			if err := t.setWarnings(budgetOwner(a.Key, b.Kind), b, append(b.Warnings, more...)); err != nil {
				return err
			}
			due = append(due, more...)
		}
		return nil
	})
	return due, budgets, err
}

func (t *Tx) setWarnings(of session.Key, b budget.Budget, warnings []budget.Warning) error {
	_, err := t.exec(`update caps set warned = $5 where namespace = $1 and session = $2 and scope = $3 and name = $4`,
		of.Namespace, of.Session, string(b.Kind), b.Name, jsonOf(warnings))
	return err
}

// minus is the difference of both, and not below zero.
func minus(a, b cost.Amount) cost.Amount {
	return cost.Amount{Tokens: max(a.Tokens-b.Tokens, 0), USD: max(a.USD-b.USD, 0)}
}
