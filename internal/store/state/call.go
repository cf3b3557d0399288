package state

import (
	"cmp"
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
	Reserved               cost.Amount
	Usage                  cost.Usage
	Stated                 sql.Null[int64]
	Differs                string
	Estimated              cost.Amount
	ClosedBy, ClosedNote   string
	BegunAt                int64
	EndedAt, ClosedAt      sql.Null[int64]
}

// Spent is what the call takes from budgets for good: its known cost, and the estimate of an unsettled one.
func (c *Call) Spent() cost.Amount {
	if c.State == CallUnsettled {
		return c.Usage.Amount().Add(c.Estimated)
	}
	return c.Usage.Amount()
}

// columns lists the columns of calls but the digest. tokens is the sum that budgets count.
func (c *Call) columns(tokens *int64) columns {
	u := &c.Usage
	return columns{
		{"id", &c.ID},
		{"namespace", &c.Namespace},
		{"session", &c.Session},
		{"phase", &c.Phase},
		{"persona", &c.Persona},
		{"pass", &c.Pass},
		{"round", &c.Round},
		{"attempt", &c.Attempt},
		{"call", &c.Call},
		{"run", &c.Run},
		{"team", &c.Team},
		{"day", &c.Day},
		{"agent", &c.Agent},
		{"provider", &c.Provider},
		{"model", &c.Model},
		{"state", &c.State},
		{"request", &c.Request},
		{"answer", &c.Answer},
		{"tools", &c.Tools},
		{"reserved_tokens", &c.Reserved.Tokens},
		{"reserved_nano_usd", &c.Reserved.USD},
		{"input_tokens", &u.InputTokens},
		{"output_tokens", &u.OutputTokens},
		{"reasoning_tokens", &u.ReasoningTokens},
		{"cache_read_tokens", &u.CacheReadTokens},
		{"cache_write_tokens", &u.CacheWriteTokens},
		{"cache_write_1h_tokens", &u.CacheWrite1hTokens},
		{"web_searches", &u.WebSearches},
		{"tokens", tokens},
		{"nano_usd", &u.CostUSD},
		{"stated_nano_usd", &c.Stated},
		{"differs", &c.Differs},
		{"estimated_tokens", &c.Estimated.Tokens},
		{"estimated_nano_usd", &c.Estimated.USD},
		{"closed_by", &c.ClosedBy},
		{"closed_note", &c.ClosedNote},
		{"begun_at", &c.BegunAt},
		{"ended_at", &c.EndedAt},
		{"closed_at", &c.ClosedAt},
	}
}

// call reads a call. lock ends the query. The error is [ErrNotFound] if there is none.
func (t *Tx) call(id, lock string) (Call, error) {
	var c Call
	var tokens int64
	var digest string
	all := c.columns(&tokens)
	err := t.row("select "+all.names()+", digest from calls where id = $1"+lock, id).Scan(append(all.fields(), &digest)...)
	if err != nil {
		return c, fmt.Errorf("call %s: %w", id, err)
	}
	return c, intact(id, all, digest)
}

// intact is [ErrDamaged] if a call's row is not as it was written.
func intact(id string, all columns, digest string) error {
	if all.digest() != digest {
		return fmt.Errorf("call %s: its row differs from its digest: %w", id, ErrDamaged)
	}
	return nil
}

// insertCall writes a new call and adds it to the totals.
func (t *Tx) insertCall(c Call) error {
	tokens := c.Usage.Tokens()
	return cmp.Or(t.insert("calls", c.columns(&tokens).withDigest()), t.addToTotals(c.ID, "+"), t.changed(c.Key))
}

// updateCall writes a call, and changes the totals by the difference.
func (t *Tx) updateCall(c Call) error {
	if err := t.addToTotals(c.ID, "-"); err != nil {
		return err
	}
	if err := t.writeCall(c); err != nil {
		return err
	}
	return t.changed(c.Key)
}

// writeCall writes a call that is not in the totals, and adds it.
func (t *Tx) writeCall(c Call) error {
	tokens := c.Usage.Tokens()
	all := c.columns(&tokens).withDigest()
	if _, err := t.exec("update calls set "+all.assignments()+" where id = $1", all.values()...); err != nil {
		return err
	}
	return t.addToTotals(c.ID, "+")
}

// figure is a column of totals, and what a call adds to it.
type figure struct{ name, ofCall string }

// figures are those in the order of Cost.sums, and the tokens that budgets count.
var figures = []figure{
	{"calls", "case when ended_at is not null and (answer <> '' or tokens <> 0 or nano_usd <> 0) then 1 else 0 end"},
	{"input_tokens", "input_tokens"},
	{"output_tokens", "output_tokens"},
	{"reasoning_tokens", "reasoning_tokens"},
	{"cache_read_tokens", "cache_read_tokens"},
	{"cache_write_tokens", "cache_write_tokens"},
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
func eachFigure(separator string, item func(f figure) string) string {
	items := make([]string, len(figures))
	for i, f := range figures {
		items[i] = item(f)
	}
	return strings.Join(items, separator)
}

// addToTotals adds a call to the totals of its team, day, agent and model. sign is + or, before the call is changed, -.
func (t *Tx) addToTotals(id, sign string) error {
	names := eachFigure(", ", func(f figure) string { return f.name })
	added := eachFigure(", ", func(f figure) string { return sign + "(" + f.ofCall + ")" })
	sums := eachFigure(", ", func(f figure) string { return f.name + " = totals." + f.name + " + excluded." + f.name })
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
