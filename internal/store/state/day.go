package state

import (
	"context"
	"database/sql"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// Day is what the sessions of a team spend today, by UTC.
type Day struct {
	budget.Budget
	Date string
	// Sessions are those with costs or reservations on the day, by name.
	Sessions []DaySession
	// Raises are those of the day.
	Raises []budget.Raise
}

// DaySession is a session's part of a day.
type DaySession struct {
	session.Key
	Spent, Estimated, Reserved cost.Amount `sql:"*"`
	// Unsettled is the number of calls with unknown cost.
	Unsettled int
}

// DayTeams lists the teams that have a daily budget, sorted.
func (d *DB) DayTeams(ctx context.Context) ([]string, error) {
	return read(ctx, d, func(t *Tx) ([]string, error) {
		return t.texts(`select name from caps where namespace = '' and session = '' and scope = 'day' order by name`)
	})
}

// Day reads a team's day. The error is [ErrNotFound] if the team has no daily budget.
func (d *DB) Day(ctx context.Context, team string) (day Day, err error) {
	err = d.readAt(ctx, func(t *Tx, now int64) error {
		day = Day{Date: dayOf(now)}
		budgets, err := t.budgets(Assignment{}, team, day.Date, "")
		if err != nil {
			return err
		}
		if len(budgets) == 0 {
			return sql.ErrNoRows
		}
		day.Budget = budgets[0]
		if day.Raises, err = t.raises(session.Key{}, team, budget.NextDay(day.Date).AddDate(0, 0, -1).UnixMicro()); err != nil {
			return err
		}
		day.Sessions, err = query[DaySession](t, `select namespace, session, sum(tokens), sum(nano_usd), `+unsettledSums+`,
				sum(reserved_tokens), sum(reserved_nano_usd),
				count(case when state = 'unsettled' then 1 end)
			from calls where team = $1 and day = $2 group by namespace, session order by session, namespace`, team, day.Date)
		day.Sessions = slices.DeleteFunc(day.Sessions, func(s DaySession) bool { return s == DaySession{Key: s.Key} })
		return err
	})
	return day, err
}

// UnsettledOf finds the unsettled calls that a budget of a session pays for.
func (d *DB) UnsettledOf(ctx context.Context, s session.Key, b budget.Budget) (u budget.UnsettledCalls, err error) {
	var w where
	which, args := paidBy(s, b)
	w.add(which, args...)
	err = d.Read(ctx, func(t *Tx) error {
		sessions, err := query[struct {
			Calls         int
			Session, Call string
		}](t, `select count(*), session, min(id) from calls where `+w.String()+` and state = 'unsettled'
			group by session order by sum(estimated_nano_usd) desc, sum(estimated_tokens) desc, session`, w.args...)
		if u = (budget.UnsettledCalls{Sessions: len(sessions)}); len(sessions) > 0 {
			u.Calls, u.Session, u.Call = sessions[0].Calls, sessions[0].Session, sessions[0].Call
		}
		return err
	})
	return u, err
}
