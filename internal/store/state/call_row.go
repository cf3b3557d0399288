package state

import (
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"

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

// call reads a call. lock ends the query. The error is [ErrNotFound] if there is none.
func (t *Tx) call(id, lock string) (Call, error) {
	var found storedCall
	if err := t.get(&found, "calls", "where id = $1"+lock, id); err != nil {
		return Call{}, fmt.Errorf("call %s: %w", id, err)
	}
	return found.checked()
}

// writeCall writes a call that is not in the totals, and adds it.
func (t *Tx) writeCall(c Call) error {
	all := c.columns()
	if _, err := t.exec("update calls set "+all.assignments()+" where id = $1", all.values()...); err != nil {
		return err
	}
	return t.addToTotals(c.ID, "+")
}

// figure is a column of totals, and what a call adds to it.
type figure struct{ name, ofCall string }

// figures are those of a [Spending], in the order of its fields and of those of its Usage, and the tokens that budgets count.
var figures = []figure{
	{"calls", "case when ended_at is not null and (answer <> '' or tokens <> 0 or nano_usd <> 0) then 1 else 0 end"},
	{"input_tokens", "input_tokens"},
	{"output_tokens", "output_tokens"},
	{"cache_read_tokens", "cache_read_tokens"},
	{"cache_write_tokens", "cache_write_tokens"},
	{"reasoning_tokens", "reasoning_tokens"},
	{"cache_write_1h_tokens", "cache_write_1h_tokens"},
	{"web_searches", "web_searches"},
	{"nano_usd", "nano_usd"},
	{"unsettled", "case when state = 'unsettled' then 1 else 0 end"},
	{"estimated_tokens", "case when state = 'unsettled' then estimated_tokens else 0 end"},
	{"estimated_nano_usd", "case when state = 'unsettled' then estimated_nano_usd else 0 end"},
	{"begun", "case when state = 'begun' then 1 else 0 end"},
	{"reserved_tokens", "reserved_tokens"},
	{"reserved_nano_usd", "reserved_nano_usd"},
	{"tokens", "tokens"},
}

// eachFigure is a list with an item for each figure.
func eachFigure(all []figure, separator string, item func(f figure) string) string {
	items := make([]string, len(all))
	for i, f := range all {
		items[i] = item(f)
	}
	return strings.Join(items, separator)
}

// addToTotals adds a call to the totals of its team, day, agent and model. sign is + or, before the call is changed, -.
func (t *Tx) addToTotals(id, sign string) error {
	names := eachFigure(figures, ", ", func(f figure) string { return f.name })
	added := eachFigure(figures, ", ", func(f figure) string { return sign + "(" + f.ofCall + ")" })
	sums := eachFigure(figures, ", ", func(f figure) string { return f.name + " = totals." + f.name + " + excluded." + f.name })
	_, err := t.exec(`insert into totals (namespace, team, day, agent, model, largest_tokens, largest_nano_usd, `+names+`)
		select namespace, team, day, agent, model, case when state = 'answered' then tokens else 0 end,
			case when state = 'answered' then nano_usd else 0 end, `+added+` from calls where id = $1
		on conflict (namespace, team, day, agent, model) do update set `+sums+`,
			largest_tokens = case when excluded.largest_tokens > totals.largest_tokens then excluded.largest_tokens
				else totals.largest_tokens end,
			largest_nano_usd = case when excluded.largest_nano_usd > totals.largest_nano_usd then excluded.largest_nano_usd
				else totals.largest_nano_usd end`, id)
	return err
}
