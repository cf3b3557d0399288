package state

import (
	"context"
	"database/sql"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
)

// Stored returns the newest answered call of a request at its place in an attempt, in the passes from..key.Pass of the
// assignment. The error is [ErrNotFound] if there is none.
func (d *DB) Stored(ctx context.Context, key CallKey, from int64, request string) (c Call, err error) {
	err = d.Read(ctx, func(t *Tx) error {
		c, err = t.stored(`round = $8 and attempt = $9 and call = $10 order by pass desc, begun_at desc limit 1`, "", key, from, request,
			key.Round, key.Attempt, key.Call)
		return err
	})
	return c, err
}

// Undelivered takes the oldest answer to a request that the agent has not received, in the passes from..key.Pass of the
// assignment, and marks it as delivered. The error is [ErrNotFound] if there is none.
func (d *DB) Undelivered(ctx context.Context, key CallKey, from int64, request string) (c Call, err error) {
	err = d.Write(ctx, func(t *Tx) error {
		if c, err = t.stored(`delivered = 0 order by begun_at, id limit 1`, t.lockRows, key, from, request); err != nil {
			return err
		}
		before := c
		c.Delivered = true
		return t.updateCall(before, c)
	})
	return c, err
}

// stored finds an answered call. which completes the query, with places from $8 on, and lock ends it.
func (t *Tx) stored(which, lock string, key CallKey, from int64, request string, more ...any) (Call, error) {
	var id string
	err := t.row(`select id from calls where namespace = $1 and session = $2 and phase = $3 and persona = $4 and request = $5
		and state = 'answered' and pass between $6 and $7 and `+which+lock,
		append([]any{key.Namespace, key.Session, key.Phase, key.Persona, request, from, key.Pass}, more...)...).Scan(&id)
	if err != nil {
		return Call{}, err
	}
	return t.call(id, lock)
}

// Begun lists the calls of an assignment that have begun and not ended: those of a lost worker are then unsettled.
func (d *DB) Begun(ctx context.Context, a Assignment) (ids []string, err error) {
	err = d.Read(ctx, func(t *Tx) error {
		ids = nil
		return t.each(func(r *sql.Rows) error {
			ids = append(ids, "")
			return r.Scan(&ids[len(ids)-1])
		}, `select id from calls where namespace = $1 and session = $2 and phase = $3 and persona = $4 and state = 'begun' order by begun_at, id`,
			a.Namespace, a.Session, a.Phase, a.Persona)
	})
	return ids, err
}

// Largest is the highest cost of one answered call of an agent, in a session or else on its team's day: the guess for the
// next one. ok is false if there was none.
func (d *DB) Largest(ctx context.Context, s session.Key, team, agent string) (most cost.Amount, ok bool, err error) {
	err = d.Read(ctx, func(t *Tx) error {
		var n int
		err := t.row(`select count(*), coalesce(max(tokens), 0), coalesce(max(nano_usd), 0) from calls
			where namespace = $1 and session = $2 and agent = $3 and state = 'answered'`, s.Namespace, s.Session, agent).Scan(&n, &most.Tokens, &most.USD)
		if ok = n > 0; ok || err != nil {
			return err
		}
		now, err := t.Now()
		if err != nil {
			return err
		}
		err = t.row(`select coalesce(max(largest_tokens), 0), coalesce(max(largest_nano_usd), 0) from totals where team = $1 and day = $2 and agent = $3`,
			team, dayOf(now), agent).Scan(&most.Tokens, &most.USD)
		ok = most != cost.Amount{}
		return err
	})
	return most, ok, err
}

// Budgets are the budgets that an assignment's calls count against now, with what was spent of them.
func (d *DB) Budgets(ctx context.Context, a Assignment, team string) (found []Budget, err error) {
	err = d.Read(ctx, func(t *Tx) error {
		now, err := t.Now()
		if err != nil {
			return err
		}
		found, err = t.budgets(a, team, dayOf(now), "")
		return err
	})
	return found, err
}
