package state

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Assignment identifies an assignment of a session.
type Assignment struct {
	session.Key
	spec.AssignmentID
}

// AttemptKey identifies an attempt of an assignment.
type AttemptKey struct {
	Assignment
	Pass, Round, Attempt int64
}

// CallKey is the place of a call. Call counts the calls of an attempt from 1; 0 is a whole attempt of a program whose calls
// nobody sees.
type CallKey struct {
	AttemptKey
	Call int64
}

// NewCallID makes an id.
func NewCallID() string { return strings.ToLower(rand.Text()[:16]) }

// NextCall is the call of a [NewCall] that gets the attempt's next number.
const NextCall = -1

// CallState is the state of a call.
type CallState string

// The states of a call. Only a begun call holds a reservation.
const (
	CallBegun CallState = "begun"
	// CallAnswered: the answer is stored, and its cost is known.
	CallAnswered CallState = "answered"
	// CallFailed: there is no answer, and the cost is known.
	CallFailed CallState = "failed"
	// CallUnsettled: the cost is not known in full. Its estimate counts as spent.
	CallUnsettled CallState = "unsettled"
	// CallClosed: a person has stated the rest of an unsettled call's cost, or has written it off.
	CallClosed CallState = "closed"
)

// Call is a row of calls; schema.sql describes the columns.
type Call struct {
	ID string
	CallKey
	Run                    int64
	Team, Day              string
	Agent, Provider, Model string
	State                  CallState
	Request, Answer, Tools string
	Reserved               cost.Amount `sql:"reserved_*"`
	Usage                  cost.Usage  `sql:"*"`
	// Tokens are those of the usage that budgets count, as they were stored.
	Tokens               int64
	Differs              string
	Estimated            cost.Amount `sql:"estimated_*"`
	ClosedBy, ClosedNote string
	BegunAt              int64
	EndedAt, ClosedAt    sql.Null[int64]
}

// Spent is what the call takes from budgets for good: its known cost, and the estimate of an unsettled one.
func (c *Call) Spent() cost.Amount {
	if c.State == CallUnsettled {
		return c.Usage.Amount().Add(c.Estimated)
	}
	return c.Usage.Amount()
}

// storedCall is a call with the digest of its other columns.
type storedCall struct {
	Call
	Digest string
}

// checked is the call. The error is [ErrDamaged] if it is not as it was written.
func (s *storedCall) checked() (Call, error) {
	all := columnsOf(s)
	if all[:len(all)-1].digest() != s.Digest {
		return s.Call, fmt.Errorf("call %s: its row differs from its digest: %w", s.ID, ErrDamaged)
	}
	return s.Call, nil
}

// columns are what is stored of a call.
func (c *Call) columns() columns {
	c.Tokens = c.Usage.Tokens()
	return columnsOf(c).withDigest()
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
			err = t.numberAndEstimate(&n, day)
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
			Estimated: capEstimate(n.Estimated, v.Granted, n.Free), BegunAt: now,
		})
	})
	return v, err
}

// numberAndEstimate numbers a call, and guesses what is not stated of its cost.
func (t *Tx) numberAndEstimate(n *NewCall, day string) error {
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

// capEstimate limits an estimate to what was granted, so that it exceeds no cap.
func capEstimate(estimated, granted cost.Amount, free bool) cost.Amount {
	if free {
		return estimated
	}
	return cost.Amount{Tokens: min(estimated.Tokens, granted.Tokens), USD: min(estimated.USD, granted.USD)}
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

// call reads a call. lock ends the query. The error is [ErrNotFound] if there is none.
func (t *Tx) call(id, lock string) (Call, error) {
	var found storedCall
	if err := t.get(&found, "calls", "where id = $1"+lock, id); err != nil {
		return Call{}, fmt.Errorf("call %s: %w", id, err)
	}
	return found.checked()
}

// insertCall writes a new call.
func (t *Tx) insertCall(c Call) error {
	return cmp.Or(t.insert("calls", c.columns()), t.changed(c.Key))
}

// updateCall writes a call, and notes that its session has changed.
func (t *Tx) updateCall(c Call) error {
	return cmp.Or(t.writeCall(c), t.changed(c.Key))
}

// writeCall writes a call.
func (t *Tx) writeCall(c Call) error {
	all := c.columns()
	_, err := t.exec("update calls set "+all.assignments()+" where id = $1", all.values()...)
	return err
}

// PaidAnswer finds the oldest stored answer to a request that the running program has not received yet. It may be of the running
// attempt, the first of attempts; of those that it continues, which follow; or of an earlier pass, beginning with from. The
// error is [ErrNotFound] if there is none.
func (d *DB) PaidAnswer(ctx context.Context, attempts []AttemptKey, from int64, request string,
	received map[string]bool,
) (found Call, err error) {
	err = d.Read(ctx, func(t *Tx) error {
		running := attempts[0]
		calls, err := t.calls(`phase = $3 and persona = $4 and request = $5 and state = 'answered' and answer <> ''`,
			running.Key, running.Phase, running.Persona, request)
		if err != nil {
			return err
		}
		for _, c := range calls {
			inherited := c.Pass >= from && c.Pass < running.Pass
			if !received[c.ID] && (inherited || slices.Contains(attempts, c.AttemptKey)) {
				found = c
				return nil
			}
		}
		return sql.ErrNoRows
	})
	return found, err
}

// Calls lists the calls of a session in the order in which they began; of an assignment alone, if one is given.
func (d *DB) Calls(ctx context.Context, a Assignment) ([]Call, error) {
	return d.listed(ctx, a, `($3 = '' or phase = $3) and ($4 = '' or persona = $4)`)
}

// Call reads a call of a session by its id; [ErrNotFound] if the session has none with it.
func (d *DB) Call(ctx context.Context, s session.Key, id string) (Call, error) {
	return read(ctx, d, func(t *Tx) (Call, error) {
		found, err := t.calls(`id = $3`, s, id)
		if len(found) == 0 {
			return Call{}, cmp.Or(err, sql.ErrNoRows)
		}
		return found[0], err
	})
}

// UnfinishedCalls lists the calls of a session, or of an assignment, whose cost is not known: those in progress and the
// unsettled ones.
func (d *DB) UnfinishedCalls(ctx context.Context, a Assignment) ([]Call, error) {
	return d.listed(ctx, a, `($3 = '' or phase = $3) and ($4 = '' or persona = $4) and state in ('begun', 'unsettled')`)
}

func (d *DB) listed(ctx context.Context, a Assignment, which string) ([]Call, error) {
	return read(ctx, d, func(t *Tx) ([]Call, error) { return t.calls(which, a.Key, a.Phase, a.Persona) })
}

// calls lists calls of a session, verified. which has places from $3 on.
func (t *Tx) calls(which string, s session.Key, args ...any) (calls []Call, err error) {
	rows, err := t.storedCalls(which, s, args...)
	for i := range rows {
		c, err := rows[i].checked()
		if err != nil {
			return nil, err
		}
		calls = append(calls, c)
	}
	return calls, err
}

func (t *Tx) storedCalls(which string, s session.Key, args ...any) ([]storedCall, error) {
	return query[storedCall](t, `select `+columnsOf(new(storedCall)).names()+` from calls
		where namespace = $1 and session = $2 and `+which+` order by begun_at, id`,
		append([]any{s.Namespace, s.Session}, args...)...)
}

// largest is the highest cost of one answered call of an agent, in a session or else on its team's day: the guess for the
// next one. ok is false if there was none.
func (t *Tx) largest(s session.Key, team, agent, day string) (most cost.Amount, ok bool, err error) {
	var n int
	err = t.row(`select count(*), coalesce(max(tokens), 0), coalesce(max(nano_usd), 0) from calls
		where namespace = $1 and session = $2 and agent = $3 and state in ('answered', 'closed')`, s.Namespace, s.Session, agent).
		Scan(&n, &most.Tokens, &most.USD)
	if ok = n > 0; ok || err != nil {
		return most, ok, err
	}
	err = t.row(`select coalesce(max(tokens), 0), coalesce(max(nano_usd), 0) from calls
		where team = $1 and day = $2 and agent = $3 and state = 'answered'`,
		team, day, agent).Scan(&most.Tokens, &most.USD)
	return most, most != cost.Amount{}, err
}
