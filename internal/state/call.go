package state

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
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

// Counts reports whether the call has ended and has cost anything, or has an answer: statistics leave others out.
func (c *Call) Counts() bool {
	return c.EndedAt.Valid && (c.Answer != "" || c.Spent() != cost.Amount{})
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
	all := c.columns(&tokens).withDigest()
	if _, err := t.exec("insert into calls ("+all.names()+") values ("+all.places()+")", all.values()...); err != nil {
		return err
	}
	return errors.Join(t.addToTotals(Call{}, c), t.changed(c.Key, c.Team))
}

// updateCall writes a call that was read as before, and changes the totals by the difference.
func (t *Tx) updateCall(before, c Call) error {
	tokens := c.Usage.Tokens()
	all := c.columns(&tokens).withDigest()
	changed, err := t.exec("update calls set "+all.assignments()+" where id = $1", all.values()...)
	if err != nil {
		return err
	}
	if changed != 1 {
		return fmt.Errorf("call %s: %w", c.ID, ErrNotFound)
	}
	return errors.Join(t.addToTotals(before, c), t.changed(c.Key, c.Team))
}

// totals are what a call adds to the totals, by column.
func (c *Call) totals() columns {
	u, tokens := c.Usage, c.Usage.Tokens()
	var calls, unsettled, begun int64
	var estimated cost.Amount
	if c.Counts() {
		calls = 1
	}
	switch c.State {
	case CallBegun:
		begun = 1
	case CallUnsettled:
		unsettled, estimated = 1, c.Estimated
	case CallAnswered, CallFailed, CallClosed:
	}
	return columns{
		{"calls", &calls},
		{"input_tokens", &u.InputTokens},
		{"output_tokens", &u.OutputTokens},
		{"reasoning_tokens", &u.ReasoningTokens},
		{"cache_read_tokens", &u.CacheReadTokens},
		{"cache_write_tokens", &u.CacheWriteTokens},
		{"cache_write_1h_tokens", &u.CacheWrite1hTokens},
		{"web_searches", &u.WebSearches},
		{"tokens", &tokens},
		{"nano_usd", &u.CostUSD},
		{"unsettled", &unsettled},
		{"estimated_tokens", &estimated.Tokens},
		{"estimated_nano_usd", &estimated.USD},
		{"begun", &begun},
		{"reserved_tokens", &c.Reserved.Tokens},
		{"reserved_nano_usd", &c.Reserved.USD},
	}
}

// totalsUpdate adds the values of a row to the stored ones.
var totalsUpdate = func() string {
	sets := []string{
		"largest_tokens = case when excluded.largest_tokens > totals.largest_tokens then excluded.largest_tokens else totals.largest_tokens end",
		"largest_nano_usd = case when excluded.largest_nano_usd > totals.largest_nano_usd then excluded.largest_nano_usd else totals.largest_nano_usd end",
	}
	for _, c := range (&Call{}).totals() {
		sets = append(sets, c.name+" = totals."+c.name+" + excluded."+c.name)
	}
	return strings.Join(sets, ", ")
}()

// addToTotals changes the totals of a call's team, day, agent and model by what it has changed. before is zero for a new
// call.
func (t *Tx) addToTotals(before, c Call) error {
	largest := cost.Amount{}
	if c.State == CallAnswered {
		largest = c.Usage.Amount()
	}
	row := columns{
		{"namespace", &c.Namespace},
		{"team", &c.Team},
		{"day", &c.Day},
		{"agent", &c.Agent},
		{"model", &c.Model},
		{"largest_tokens", &largest.Tokens},
		{"largest_nano_usd", &largest.USD},
	}
	was := before.totals().values()
	for i, is := range c.totals() {
		more := is.value().(int64) - was[i].(int64) //nolint:forcetypeassert // all of them are numbers
		row = append(row, column{is.name, &more})
	}
	_, err := t.exec("insert into totals ("+row.names()+") values ("+row.places()+
		") on conflict (namespace, team, day, agent, model) do update set "+totalsUpdate, row.values()...)
	return err
}
