package state

import (
	"cmp"
	"context"
	"fmt"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
)

// Fence names the execution that writes: the session's run, and the holder of the assignment; empty: any.
type Fence struct {
	Run    int64
	Holder string
}

// NewCall is a call that an agent is about to pay for.
type NewCall struct {
	// ID is made before the call: a repetition finds the first one.
	ID string
	CallKey
	Fence
	Team, Agent, Provider, Model, Request string
	// Want is an upper bound of its cost, and Least the smallest amount with which it is useful. What is not stated of a
	// whole attempt's cost is guessed from earlier calls.
	Want, Least cost.Amount
	// Free: nothing is reserved for it, because its cost is not counted.
	Free bool
	// Estimated is booked if its cost stays unknown; zero: the highest cost of an earlier call.
	Estimated cost.Amount
}

// Begin reserves the possible cost of a call in every budget that it counts against, and records that it begins. Nothing is
// recorded if the verdict is to wait or to refuse. The error is [ErrFenced] if the writer has been replaced. The rows of the
// budgets in the table caps are locked, so that two calls never reserve the same rest.
func (d *DB) Begin(ctx context.Context, n NewCall) (v budget.Verdict, err error) {
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		v = budget.Verdict{}
		n := n
		if err := t.fence(n.Assignment, n.Fence); err != nil {
			return err
		}
		before, err := t.call(n.ID, t.lockRows)
		if err == nil { // a repetition
			v.Granted = before.Reserved
			return nil
		}
		if !isNoRows(err) {
			return err
		}
		day := dayOf(now)
		budgets, err := t.budgets(n.Assignment, n.Team, day, t.lockRows)
		if err == nil {
			err = t.complete(&n, day)
		}
		if err != nil {
			return err
		}
		if v = budget.Decide(budgets, n.Want, n.Least); v.Wait || v.Refused != nil {
			return nil
		}
		return t.insertCall(Call{
			ID: n.ID, CallKey: n.CallKey, Run: n.Run, Team: n.Team, Day: day, Agent: n.Agent, Provider: n.Provider, Model: n.Model,
			State: CallBegun, Request: n.Request, Reserved: budget.Reservation(v.Granted),
			Estimated: within(n.Estimated, v.Granted, n.Free), BegunAt: now,
		})
	})
	return v, err
}

// insertCall writes a new call and adds it to the totals.
func (t *Tx) insertCall(c Call) error {
	return cmp.Or(t.insert("calls", c.columns()), t.addToTotals(c.ID, "+"), t.changed(c.Key))
}

// complete numbers a call, and guesses what is not stated of its cost.
func (t *Tx) complete(n *NewCall, day string) error {
	if n.Call == NextCall {
		if err := t.row(`select coalesce(max(call), 0) + 1 from calls
			where namespace = $1 and session = $2 and phase = $3 and persona = $4 and pass = $5 and round = $6 and attempt = $7`,
			n.Namespace, n.Session, n.Phase, n.Persona, n.Pass, n.Round, n.Attempt).Scan(&n.Call); err != nil {
			return err
		}
	}
	if n.Call != 0 && n.Want != (cost.Amount{}) {
		return nil
	}
	most, known, err := t.largest(n.Key, n.Team, n.Agent, day)
	if err != nil {
		return err
	}
	if n.Estimated == (cost.Amount{}) {
		n.Estimated = most
	}
	if n.Free {
		return nil
	}
	want, least := cost.Amount{Tokens: budget.Unlimited, USD: budget.Unlimited}, cost.Amount{Tokens: 1, USD: 1}
	if known {
		want, least = most, most
	}
	if n.Want.Tokens == 0 {
		n.Want.Tokens, n.Least.Tokens = want.Tokens, least.Tokens
	}
	if n.Want.USD == 0 {
		n.Want.USD, n.Least.USD = want.USD, least.USD
	}
	return nil
}

// within limits an estimate to what was granted, so that it exceeds no cap.
func within(estimated, granted cost.Amount, free bool) cost.Amount {
	if free {
		return estimated
	}
	return cost.Amount{Tokens: min(estimated.Tokens, granted.Tokens), USD: min(estimated.USD, granted.USD)}
}

// fence refuses a writer that has been replaced. The rows stay as they are until the transaction ends.
func (t *Tx) fence(a Assignment, f Fence) error {
	var one int
	err := t.row(`select 1 from sessions where namespace = $1 and session = $2 and run = $3`+t.shareRows,
		a.Namespace, a.Session, f.Run).Scan(&one)
	if err == nil && f.Holder != "" {
		err = t.row(`select 1 from assignments
			where namespace = $1 and session = $2 and phase = $3 and persona = $4 and holder = $5`+t.shareRows,
			a.Namespace, a.Session, a.Phase, a.Persona, f.Holder).Scan(&one)
	}
	if isNoRows(err) {
		return fmt.Errorf("session %s, run %d, holder %q: %w", a.Session, f.Run, f.Holder, ErrFenced)
	}
	return err
}
