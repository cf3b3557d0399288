package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
)

// Fence names the execution that writes: the session's run, and the lease that it works by. An empty lease names none.
type Fence struct {
	Run   int64
	Lease string
	Epoch int64
}

// NewCall is a call that an agent is about to pay for.
type NewCall struct {
	// ID is made before the call: a repetition finds the first one.
	ID string
	CallKey
	Fence
	Team, Agent, Provider, Model, Request string
	// Want is an upper bound of its cost, and Least the smallest amount with which it is useful.
	Want, Least cost.Amount
	// Estimated is booked if its cost stays unknown.
	Estimated cost.Amount
}

// Verdict says whether a call may be made.
type Verdict struct {
	// Granted is what the call may cost.
	Granted cost.Amount
	// Wait: calls in progress may free the missing amount; repeat the request.
	Wait bool
	// Refused is the budget that can never pay for the call, or that it waits for; nil: none.
	Refused *Budget
}

// Budget is a cap with what was spent of it.
type Budget struct {
	Scope session.BudgetScope
	// Name is that of the phase, the persona or the team.
	Name string
	// Cap includes raises; zero in a dimension that is not limited.
	Cap cost.Amount
	// Spent includes the estimates of unsettled calls.
	Spent, Reserved cost.Amount
}

// unlimited is more than any budget, and small enough for the sum of two.
const unlimited = math.MaxInt64 / 4

// left is what is neither spent nor reserved.
func (b Budget) left() cost.Amount { return b.minus(b.Spent.Add(b.Reserved)) }

func (b Budget) minus(used cost.Amount) cost.Amount {
	left := cost.Amount{Tokens: unlimited, USD: unlimited}
	if b.Cap.Tokens > 0 {
		left.Tokens = max(b.Cap.Tokens-used.Tokens, 0)
	}
	if b.Cap.USD > 0 {
		left.USD = max(b.Cap.USD-used.USD, 0)
	}
	return left
}

// covers reports whether an amount is within what is left.
func covers(left, amount cost.Amount) bool {
	return amount.Tokens <= left.Tokens && amount.USD <= left.USD
}

func least(a, b cost.Amount) cost.Amount {
	return cost.Amount{Tokens: min(a.Tokens, b.Tokens), USD: min(a.USD, b.USD)}
}

// decide grants all of want if every budget has it left. It refuses what can never fit, even without any reservation. It
// waits while reservations may free a part of what is missing, and then grants what is left.
func decide(budgets []Budget, want, atLeast cost.Amount) Verdict {
	for i, b := range budgets {
		if !covers(b.minus(b.Spent), atLeast) {
			return Verdict{Refused: &budgets[i]}
		}
	}
	granted := want
	for i, b := range budgets {
		left := b.left()
		if want.Tokens > left.Tokens && b.Reserved.Tokens > 0 || want.USD > left.USD && b.Reserved.USD > 0 {
			return Verdict{Wait: true, Refused: &budgets[i]}
		}
		granted = least(left, granted)
	}
	return Verdict{Granted: granted}
}

// Begin reserves the possible cost of a call in every budget that it counts against, and records that it begins. Nothing is
// recorded if the verdict is to wait or to refuse. The error is [ErrFenced] if the writer has been replaced.
func (d *DB) Begin(ctx context.Context, n NewCall) (v Verdict, err error) {
	err = d.Write(ctx, func(t *Tx) error {
		v = Verdict{}
		if err := t.fence(n.Key, n.Fence); err != nil {
			return err
		}
		before, err := t.call(n.ID, t.lockRows)
		if err == nil { // a repetition
			v.Granted = before.Reserved
			return nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		now, err := t.Now()
		if err != nil {
			return err
		}
		day := dayOf(now)
		budgets, err := t.budgets(n.Assignment, n.Team, day, t.lockRows)
		if err != nil {
			return err
		}
		if v = decide(budgets, n.Want, n.Least); v.Wait || v.Refused != nil {
			return nil
		}
		return t.insertCall(Call{
			ID: n.ID, CallKey: n.CallKey, Run: n.Run, Team: n.Team, Day: day, Agent: n.Agent, Provider: n.Provider, Model: n.Model,
			State: CallBegun, Request: n.Request, Reserved: held(v.Granted), Estimated: n.Estimated, BegunAt: now,
		})
	})
	return v, err
}

// held is the part of a grant that is reserved. A dimension that no budget limits would make the sums useless.
func held(granted cost.Amount) cost.Amount {
	if granted.Tokens >= unlimited {
		granted.Tokens = 0
	}
	if granted.USD >= unlimited {
		granted.USD = 0
	}
	return granted
}

// fence refuses a writer that has been replaced. The rows stay as they are until the transaction ends.
func (t *Tx) fence(s session.Key, f Fence) error {
	var one int
	err := t.row(`select 1 from sessions where namespace = $1 and session = $2 and run = $3`+t.shareRows, s.Namespace, s.Session, f.Run).Scan(&one)
	if err == nil && f.Lease != "" {
		err = t.row(`select 1 from leases where name = $1 and epoch = $2`+t.shareRows, f.Lease, f.Epoch).Scan(&one)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("session %s, run %d, lease %q of epoch %d: %w", s.Session, f.Run, f.Lease, f.Epoch, ErrFenced)
	}
	return err
}

// budgets reads what an assignment's calls count against. Budgets without a cap are left out. lock ends the query.
func (t *Tx) budgets(a Assignment, team, day, lock string) (found []Budget, err error) {
	err = t.each(func(r *sql.Rows) error {
		var b Budget
		err := r.Scan(&b.Scope, &b.Name, &b.Cap.Tokens, &b.Cap.USD)
		found = append(found, b)
		return err
	}, `select scope, name, tokens, nano_usd from caps
		where namespace = $1 and session = $2 and (scope = 'session' or scope = 'phase' and name = $3 or scope = 'persona' and name = $4)
			or namespace = '' and session = '' and scope = 'day' and name = $5
		order by namespace, session, scope, name`+lock, a.Namespace, a.Session, a.Phase, a.Persona, team)
	if err != nil {
		return nil, err
	}
	for i := range found {
		if err := t.fill(&found[i], a.Key, day); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// fill reads a budget's raises and sums.
func (t *Tx) fill(b *Budget, s session.Key, day string) error {
	on, of := "", s
	if b.Scope == session.BudgetOfDay {
		on, of = day, session.Key{}
	}
	var raised cost.Amount
	err := t.row(`select coalesce(sum(tokens), 0), coalesce(sum(nano_usd), 0) from raises
		where namespace = $1 and session = $2 and scope = $3 and name = $4 and day = $5`, of.Namespace, of.Session, string(b.Scope), b.Name, on).
		Scan(&raised.Tokens, &raised.USD)
	if err != nil {
		return err
	}
	b.Cap = raise(b.Cap, raised)
	if b.Scope == session.BudgetOfDay {
		return t.row(`select coalesce(sum(tokens), 0), coalesce(sum(nano_usd), 0), coalesce(sum(reserved_tokens), 0), coalesce(sum(reserved_nano_usd), 0)
			from totals where team = $1 and day = $2`, b.Name, day).
			Scan(&b.Spent.Tokens, &b.Spent.USD, &b.Reserved.Tokens, &b.Reserved.USD)
	}
	which := map[session.BudgetScope]string{session.BudgetOfSession: "", session.BudgetOfPhase: " and phase = $3", session.BudgetOfPersona: " and persona = $3"}[b.Scope]
	args := []any{s.Namespace, s.Session}
	if which != "" {
		args = append(args, b.Name)
	}
	return t.row(`select coalesce(sum(tokens + case when state = 'unsettled' then estimated_tokens else 0 end), 0),
			coalesce(sum(nano_usd + case when state = 'unsettled' then estimated_nano_usd else 0 end), 0),
			coalesce(sum(reserved_tokens), 0), coalesce(sum(reserved_nano_usd), 0)
		from calls where namespace = $1 and session = $2`+which, args...).
		Scan(&b.Spent.Tokens, &b.Spent.USD, &b.Reserved.Tokens, &b.Reserved.USD)
}

// raise adds to a cap. A dimension without a cap stays without one.
func raise(limit, added cost.Amount) cost.Amount {
	if limit.Tokens > 0 {
		limit.Tokens += min(added.Tokens, max(unlimited-1-limit.Tokens, 0))
	}
	if limit.USD > 0 {
		limit.USD += min(added.USD, max(unlimited-1-limit.USD, 0))
	}
	return limit
}
