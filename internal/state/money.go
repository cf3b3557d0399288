package state

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Account is what a session has cost, and what it may cost.
type Account struct {
	Team string
	// Costs are those of its calls, by all keys, in the order in which the first call of each began.
	Costs []Cost
	// Budgets are those of the session and of its team's day, and Raises what people have added to them since the session
	// began.
	Budgets []budget.Budget
	Raises  []budget.Raise
}

// Account reads a session's costs and budgets; it is empty for a session without any.
func (d *DB) Account(ctx context.Context, s session.Key) (a Account, err error) {
	err = d.Read(ctx, func(t *Tx) error {
		a = Account{}
		now, err := t.Now()
		if err != nil {
			return err
		}
		started := now
		err = t.row(`select team, started_at from sessions where namespace = $1 and session = $2`, s.Namespace, s.Session).Scan(&a.Team, &started)
		if err != nil && !isNoRows(err) {
			return err
		}
		if a.Costs, err = t.costs(s, CostKeys); err != nil {
			return err
		}
		if a.Budgets, err = t.budgets(Assignment{Key: s}, a.Team, dayOf(now), ""); err != nil {
			return err
		}
		a.Raises, err = t.raises(s, a.Team, started)
		return err
	})
	return a, err
}

// Sum adds up costs; of an assignment alone, if one is given.
func Sum(costs []Cost, of spec.AssignmentID) (sum Cost) {
	for _, c := range costs {
		if of != (spec.AssignmentID{}) && (c.Phase != of.Phase || of.Persona != "" && c.Persona != of.Persona) {
			continue
		}
		sum.Calls, sum.Unsettled, sum.Begun = sum.Calls+c.Calls, sum.Unsettled+c.Unsettled, sum.Begun+c.Begun
		sum.Usage, sum.Estimated, sum.Reserved = sum.Usage.Add(c.Usage), sum.Estimated.Add(c.Estimated), sum.Reserved.Add(c.Reserved)
	}
	return sum
}

// Of sums the costs of an assignment, of a phase if the persona is empty, or of the session.
func (a *Account) Of(id spec.AssignmentID) Cost { return Sum(a.Costs, id) }

// Usage is the known cost of the session.
func (a *Account) Usage() cost.Usage { return a.Of(spec.AssignmentID{}).Usage }

// Budget is a budget by its scope. One without a limit has no figures, but for the session's.
func (a *Account) Budget(scope string) budget.Budget {
	for _, b := range a.Budgets {
		if b.Scope() == scope {
			return b
		}
	}
	kind, name := budget.Split(scope)
	b := budget.Budget{Kind: kind, Name: name}
	if kind == session.BudgetOfSession {
		sum := a.Of(spec.AssignmentID{})
		b.Spent, b.Unsettled, b.Reserved = sum.Usage.Amount(), sum.Estimated, sum.Reserved
	}
	return b
}

// Money are the rows of a session's calls, limits and raises.
type Money struct {
	Calls  []Call          `json:"calls"`
	Caps   []budget.Budget `json:"caps"`
	Raises []budget.Raise  `json:"raises"`
}

// Money reads the rows of a session.
func (d *DB) Money(ctx context.Context, s session.Key) (m Money, err error) {
	err = d.Read(ctx, func(t *Tx) error {
		if m.Calls, err = t.calls(`true`, s); err != nil {
			return err
		}
		if m.Raises, err = t.raises(s, "", 0); err != nil {
			return err
		}
		m.Caps = nil
		return t.each(func(r *sql.Rows) error {
			var b budget.Budget
			err := r.Scan(&b.Kind, &b.Name, &b.Base.Tokens, &b.Base.USD)
			m.Caps = append(m.Caps, b)
			return err
		}, `select scope, name, tokens, nano_usd from caps where namespace = $1 and session = $2 order by scope, name`, s.Namespace, s.Session)
	})
	return m, err
}

// Check refuses rows that this program would not have written: they come from an archive.
func (m Money) Check() error {
	for i, c := range m.Calls {
		err := c.Usage.Validate()
		switch {
		case err != nil:
		case c.Estimated.Tokens < 0 || c.Estimated.USD < 0:
			err = fmt.Errorf("its estimate is negative")
		case c.AssignmentID.Check() != nil:
			err = c.AssignmentID.Check()
		case spec.CheckName(c.Team) != nil:
			err = spec.CheckName(c.Team)
		case budget.NextDay(c.Day).IsZero():
			err = fmt.Errorf("its day is %.20q", c.Day)
		case (c.Answer != "" && !spec.Digest(c.Answer).Valid()) || (c.Tools != "" && !spec.Digest(c.Tools).Valid()):
			err = fmt.Errorf("its answer is no digest")
		}
		if err != nil {
			return fmt.Errorf("calls[%d]: %w", i, err)
		}
	}
	for i, r := range m.Raises {
		if r.Added.Tokens < 0 || r.Added.USD < 0 {
			return fmt.Errorf("raises[%d]: it is negative", i)
		}
	}
	return nil
}

// PutMoney replaces the rows of a session that nobody runs by those of another installation. Calls in progress there are
// unsettled here.
func (d *DB) PutMoney(ctx context.Context, s session.Key, m Money) error {
	return d.Write(ctx, func(t *Tx) error {
		now, err := t.Now()
		if err != nil {
			return err
		}
		old, err := t.calls(`true`, s)
		if err != nil {
			return err
		}
		for _, c := range old {
			if err := t.addToTotals(c, Call{CallKey: c.CallKey, Team: c.Team, Day: c.Day, Agent: c.Agent, Model: c.Model, State: CallFailed}); err != nil {
				return err
			}
		}
		for _, table := range []string{"calls", "caps", "raises"} {
			if _, err := t.exec(`delete from `+table+` where namespace = $1 and session = $2`, s.Namespace, s.Session); err != nil {
				return err
			}
		}
		for _, c := range m.Calls {
			c.ID, c.Key = NewCallID(), s
			if c.State == CallBegun {
				c.State, c.Reserved, c.EndedAt = CallUnsettled, cost.Amount{}, sql.Null[int64]{V: now, Valid: true}
			}
			if err := t.insertCall(c); err != nil {
				return err
			}
		}
		for _, r := range m.Raises {
			r.ID = rand.Text()
			if err := t.insertRaise(s, r, "import", r.When.UnixMicro()); err != nil {
				return err
			}
		}
		return t.setCaps(s, "", m.Caps)
	})
}

// CheckTotals compares the totals with the calls that they sum. The error is [ErrDamaged] if they differ.
func (d *DB) CheckTotals(ctx context.Context) error {
	return d.Read(ctx, func(t *Tx) error {
		return t.each(func(r *sql.Rows) error {
			var team, day, agent, model string
			if err := r.Scan(&team, &day, &agent, &model); err != nil {
				return err
			}
			return fmt.Errorf("%w: the total of team %s on %s, agent %s, model %s, differs from the sum of its calls", ErrDamaged, team, day, agent, model)
		}, `select t.team, t.day, t.agent, t.model from totals t left join (
				select namespace, team, day, agent, model, sum(tokens) as tokens, sum(nano_usd) as nano_usd,
					sum(case when state = 'unsettled' then estimated_tokens else 0 end) as estimated_tokens,
					sum(case when state = 'unsettled' then estimated_nano_usd else 0 end) as estimated_nano_usd,
					sum(reserved_tokens) as reserved_tokens, sum(reserved_nano_usd) as reserved_nano_usd
				from calls group by namespace, team, day, agent, model) c
			on c.namespace = t.namespace and c.team = t.team and c.day = t.day and c.agent = t.agent and c.model = t.model
			where t.tokens <> coalesce(c.tokens, 0) or t.nano_usd <> coalesce(c.nano_usd, 0)
				or t.estimated_tokens <> coalesce(c.estimated_tokens, 0) or t.estimated_nano_usd <> coalesce(c.estimated_nano_usd, 0)
				or t.reserved_tokens <> coalesce(c.reserved_tokens, 0) or t.reserved_nano_usd <> coalesce(c.reserved_nano_usd, 0)`)
	})
}
