package state

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
)

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

// Open lists the calls of a session, or of an assignment, whose cost is not known: those in progress and the unsettled ones.
func (d *DB) Open(ctx context.Context, a Assignment) ([]Call, error) {
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
	err = t.row(`select coalesce(max(largest_tokens), 0), coalesce(max(largest_nano_usd), 0) from totals where team = $1 and day = $2 and agent = $3`,
		team, day, agent).Scan(&most.Tokens, &most.USD)
	return most, most != cost.Amount{}, err
}

// Cost is what some calls have cost. A sum has only the keys by which it was grouped.
type Cost struct {
	Team    string `json:"team,omitempty"`
	Session string `json:"session,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Persona string `json:"persona,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Model   string `json:"model,omitempty"`
	Day     string `json:"day,omitempty"`
	Spending
}

// Spending is a sum of costs.
type Spending struct {
	// Calls is the number of calls that have ended and cost something, or have an answer, and Usage the known cost.
	Calls int        `json:"calls"`
	Usage cost.Usage `json:"usage" sql:"*"`
	// Tokens is the sum of all tokens.
	Tokens int64 `json:"tokens" sql:"-"`
	// Unsettled is an estimate for calls with unknown cost, and Reserved is what is reserved for calls in progress.
	Unsettled OpenCalls `json:"unsettled" sql:"unsettled_*"`
	Reserved  OpenCalls `json:"reserved" sql:"reserved_*"`
}

// OpenCalls are calls whose cost is not known, and what they may cost together.
type OpenCalls struct {
	Calls int `json:"calls"`
	cost.Amount
}

// Add returns the sum of both.
func (s Spending) Add(o Spending) Spending {
	return Spending{
		Calls: s.Calls + o.Calls, Usage: s.Usage.Add(o.Usage), Tokens: s.Tokens + o.Tokens,
		Unsettled: OpenCalls{s.Unsettled.Calls + o.Unsettled.Calls, s.Unsettled.Add(o.Unsettled.Amount)},
		Reserved:  OpenCalls{s.Reserved.Calls + o.Reserved.Calls, s.Reserved.Add(o.Reserved.Amount)},
	}
}

// CostKeys are the fields by which costs can be summed, in the order of a Cost.
var CostKeys = []string{"team", "session", "phase", "persona", "agent", "model", "day"}

// sums are the figures of a Cost, each summed over its expression.
func sums(of func(f figure) string) string {
	return eachFigure(figures[:len(figures)-1], ", ", func(f figure) string { return "coalesce(sum(" + of(f) + "), 0)" })
}

// Key is the field for one of [CostKeys].
func (c *Cost) Key(name string) *string {
	return map[string]*string{
		"team": &c.Team, "session": &c.Session, "phase": &c.Phase, "persona": &c.Persona, "agent": &c.Agent, "model": &c.Model,
		"day": &c.Day,
	}[name]
}

// Costs sums the calls of a session by keys, as [DB.Usage] does.
func (d *DB) Costs(ctx context.Context, s session.Key, by ...string) ([]Cost, error) {
	return d.Usage(ctx, by, "", Filter{Namespace: s.Namespace, Session: s.Session})
}
