package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
)

// dayOf is the UTC day of a time in microseconds.
func dayOf(micros int64) string { return budget.Date(time.UnixMicro(micros)) }

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
	// Stated is the provider's own figure, and Differs says how it differs from the counts.
	Stated  sql.Null[int64]
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
		c.Stated, c.Differs, c.EndedAt = end.Stated, end.Differs, sql.Null[int64]{V: now, Valid: true}
		return true
	})
}

// Report records what a call in progress has used so far, and raises its reservation where that exceeds it. refused is a
// budget that does not cover it; nil if all do. It never waits, because the call goes on spending meanwhile.
func (d *DB) Report(ctx context.Context, id string, used cost.Usage, estimated cost.Amount) (refused *Budget, err error) {
	err = d.Write(ctx, func(t *Tx) error {
		refused = nil
		before, err := t.call(id, t.lockRows)
		if err != nil || before.State != CallBegun {
			return err
		}
		c := before
		c.Usage, c.Estimated = c.Usage.Max(used), estimated
		budgets, err := t.budgets(c.Assignment, c.Team, c.Day, t.lockRows)
		if err != nil {
			return err
		}
		// The reported usage is spent. What is left of the reservation, and at least the estimate, is held for what follows.
		grown := minus(c.Usage.Amount(), before.Usage.Amount())
		rest := minus(c.Reserved, grown)
		want := cost.Amount{Tokens: max(rest.Tokens, estimated.Tokens), USD: max(rest.USD, estimated.USD)}
		for i, b := range budgets {
			if !covers(b.left(), minus(grown.Add(want), c.Reserved)) {
				refused, want = &budgets[i], rest
			}
		}
		c.Reserved = want
		return t.updateCall(before, c)
	})
	return refused, err
}

// KeepTools records what the tools did after the answer.
func (d *DB) KeepTools(ctx context.Context, id, tools string) error {
	return d.change(ctx, id, func(c *Call, _ int64) bool {
		kept := c.State == CallAnswered && c.Tools != tools
		c.Tools = tools
		return kept
	})
}

// Deliver records whether the agent has received an answer: the next equal request gets one that it has not.
func (d *DB) Deliver(ctx context.Context, id string, delivered bool) error {
	return d.change(ctx, id, func(c *Call, _ int64) bool {
		changed := c.Delivered != delivered
		c.Delivered = delivered
		return changed
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
	return d.Write(ctx, func(t *Tx) error {
		before, err := t.call(id, t.lockRows)
		if err != nil {
			return err
		}
		now, err := t.Now()
		if err != nil {
			return err
		}
		c := before
		if !do(&c, now) {
			return nil
		}
		return t.updateCall(before, c)
	})
}

// minus is the difference of both, and not below zero.
func minus(a, b cost.Amount) cost.Amount {
	return cost.Amount{Tokens: max(a.Tokens-b.Tokens, 0), USD: max(a.USD-b.USD, 0)}
}
