package state

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
)

// CallEnd is how a call has ended.
type CallEnd struct {
	// State is answered, failed or unsettled.
	State CallState
	// Answer is the blob of the answer.
	Answer string
	// Usage is what is known of the cost. It is at least what was reported while the call was in progress.
	Usage cost.Usage
	// Estimated is the rest of an unsettled call; zero: as it was last stated.
	Estimated cost.Amount
	// Differs says how the provider's own total differs from its counts.
	Differs string
}

// End records the end of a call and releases its reservation in every budget. It is not fenced: what was paid is booked,
// whoever books it. A repetition changes nothing; a call that has ended otherwise stays as it is, except that the cost of an
// unsettled one may become known.
func (d *DB) End(ctx context.Context, id string, end CallEnd) error {
	return d.change(ctx, id, func(c *Call, now int64) bool {
		if c.State != CallBegun && (c.State != CallUnsettled || end.State == CallUnsettled) {
			return false
		}
		if c.Estimated != (cost.Amount{}) && end.Estimated == (cost.Amount{}) {
			end.Estimated = c.Estimated
		}
		if end.State != CallUnsettled {
			end.Estimated = cost.Amount{}
		}
		c.State, c.Answer, c.Reserved, c.Estimated = end.State, end.Answer, cost.Amount{}, end.Estimated
		c.Usage = c.Usage.Max(end.Usage)
		c.Differs, c.EndedAt = end.Differs, sql.Null[int64]{V: now, Valid: true}
		return true
	})
}

// Progress is what a call in progress has cost so far.
type Progress struct {
	// Known is all that it has used for certain. It is booked.
	Known cost.Usage
	// Wanted is held for the rest, if the budgets have it, and at least Least.
	Wanted, Least cost.Amount
	// Estimated is the rest, if nothing more becomes known.
	Estimated cost.Amount
}

// Report records the progress of a call, and raises its reservation where it does not cover the rest. held is the
// reservation after that. refused is a budget that does not cover it; nil if all do. It never waits, because the call goes
// on spending meanwhile.
func (d *DB) Report(ctx context.Context, id string, p Progress) (held cost.Amount, refused *budget.Budget, err error) {
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		held, refused = cost.Amount{}, nil
		before, err := t.call(id, t.lockRows)
		if err != nil || before.State != CallBegun {
			return err
		}
		c := before
		c.Usage, c.Estimated = c.Usage.Max(p.Known), p.Estimated
		// Budgets are those of today: a day that has ended since the call began refuses nothing any more.
		budgets, err := t.budgets(c.Assignment, c.Team, dayOf(now), t.lockRows)
		if err != nil {
			return err
		}
		grown := minus(c.Usage.Amount(), before.Usage.Amount())
		c.Reserved, refused = extend(budgets, before.Reserved, grown, p)
		held = c.Reserved
		return t.updateCall(c)
	})
	return held, refused, err
}

// extend is the reservation of a call after its known cost has grown, which takes from the reservation first.
func extend(budgets []budget.Budget, reserved, grown cost.Amount, p Progress) (held cost.Amount, refused *budget.Budget) {
	rest := minus(reserved, grown)
	held = cost.Amount{Tokens: max(rest.Tokens, p.Wanted.Tokens), USD: max(rest.USD, p.Wanted.USD)}
	for i, b := range budgets {
		left := b.Left()
		room := cost.Amount{Tokens: left.Tokens + reserved.Tokens - grown.Tokens, USD: left.USD + reserved.USD - grown.USD}
		if p.Least.Tokens > room.Tokens || p.Least.USD > room.USD {
			return rest, &budgets[i]
		}
		held = cost.Amount{Tokens: min(held.Tokens, room.Tokens), USD: min(held.USD, room.USD)}
	}
	return held, nil
}

// KeepTools records what the tools did after the answer.
func (d *DB) KeepTools(ctx context.Context, id, tools string) error {
	return d.change(ctx, id, func(c *Call, _ int64) bool {
		kept := c.State == CallAnswered && c.Tools != tools
		c.Tools = tools
		return kept
	})
}

// ErrNotUnsettled means that a call's cost is known, or that it is in progress.
var ErrNotUnsettled = errors.New("the call is not unsettled")

// CloseCall records what an unsettled call has cost beyond its known part, as a person states it; zero if it is written off.
func (d *DB) CloseCall(ctx context.Context, id string, rest cost.Usage, by, note string) error {
	closed := false
	err := d.change(ctx, id, func(c *Call, now int64) bool {
		if closed = c.State == CallUnsettled; !closed {
			return false
		}
		c.State, c.Usage, c.Estimated = CallClosed, c.Usage.Add(rest), cost.Amount{}
		c.ClosedBy, c.ClosedNote, c.ClosedAt = by, note, sql.Null[int64]{V: now, Valid: true}
		return true
	})
	if err == nil && !closed {
		return fmt.Errorf("call %s: %w", id, ErrNotUnsettled)
	}
	return err
}

// change changes a call. do reports whether it has changed anything, and may run more than once.
func (d *DB) change(ctx context.Context, id string, do func(c *Call, now int64) bool) error {
	return d.writeAt(ctx, func(t *Tx, now int64) error {
		before, err := t.call(id, t.lockRows)
		if err != nil {
			return err
		}
		c := before
		if !do(&c, now) {
			return nil
		}
		return t.updateCall(c)
	})
}

// updateCall writes a call, and changes the totals by the difference.
func (t *Tx) updateCall(c Call) error {
	if err := t.addToTotals(c.ID, "-"); err != nil {
		return err
	}
	return cmp.Or(t.writeCall(c), t.changed(c.Key))
}
