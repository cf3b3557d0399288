package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// SettledAs is how an unsettled call is closed.
type SettledAs string

// The ways to close a call.
const (
	// SettledByCost: with its cost, which is known now.
	SettledByCost SettledAs = "cost"
	// SettledAsEstimated: with its estimate.
	SettledAsEstimated SettledAs = "estimated"
	// WrittenOff: without cost.
	WrittenOff SettledAs = "nothing"
)

// Settlement is the cost of a call, as a person states it.
type Settlement struct {
	As SettledAs
	// Usage is the cost, with [SettledByCost] only. Priced: its money is known, too.
	Usage  cost.Usage
	Priced bool
	// Note is the source of the figure.
	Note string
}

// Settled is the document of a settled call.
type Settled struct {
	Session string `json:"session"`
	spec.AssignmentID
	Call int64 `json:"call"`
	// Estimate is the booked estimate, Usage the cost of the call.
	Estimate   cost.Usage `json:"estimate"`
	Usage      cost.Usage `json:"usage"`
	WrittenOff bool       `json:"written_off"`
	By         string     `json:"by"`
	Note       string     `json:"note"`
	// Unsettled is the number of the session's calls that are still unsettled.
	Unsettled int `json:"unsettled"`
}

// SettledCalls is the document of the calls of a session that were settled together.
type SettledCalls struct {
	Session string    `json:"session"`
	Calls   []Settled `json:"calls"`
	// Unsettled is the number of calls that could not be settled.
	Unsettled int `json:"unsettled"`
}

// Check rejects a contradictory settlement.
func (s Settlement) Check() error {
	given := s.Usage != cost.Usage{}
	switch s.As {
	case SettledByCost:
		if !given && !s.Priced {
			return invalidf("usage", "missing; give what the call has cost")
		}
	case SettledAsEstimated, WrittenOff:
		if given {
			return invalidf("usage", "it has a cost, but the call is to count as %s; leave one out", s.As)
		}
	default:
		return invalidf("as", "%q is unknown; use %s, %s or %s", textfmt.Shorten(string(s.As), 40), SettledByCost, SettledAsEstimated, WrittenOff)
	}
	if err := s.Usage.Validate(); err != nil {
		return &Error{Kind: Invalid, err: err}
	}
	if s.Usage.ReasoningTokens > s.Usage.OutputTokens {
		return invalidf("reasoning_tokens", "%d is more than the output tokens, which include it (%d)", s.Usage.ReasoningTokens, s.Usage.OutputTokens)
	}
	return CheckNote(s.Note)
}

// Settle records the cost of a call with unknown cost, whose worker or connection was lost. An
// error of kind [Conflict] reports that the assignment is running, or that the cost is known.
func (m Money) Settle(ctx context.Context, sessionID string, id spec.AssignmentID, call int64, as Settlement) (doc Settled, err error) {
	if err := as.Check(); err != nil {
		return doc, err
	}
	if err := id.Check(); err != nil {
		return doc, &Error{Kind: Invalid, Field: "assignment", err: err}
	}
	s, key, err := m.inStore(ctx, sessionID)
	if err != nil {
		return doc, err
	}
	event := access.Event{Action: "budget.settle", Subject: fmt.Sprintf("%s %d", id, call), Detail: as.detail()}
	err = m.change(ctx, access.Operate, sessionID, event, func(ctx context.Context) error {
		doc, err = m.settle(s, key, id, call, as, actor(ctx))
		return err
	})
	return doc, err
}

// SettleAll settles all calls of a session with unknown cost, except those of assignments at work.
// With an error, the document has the calls that were settled before it.
func (m Money) SettleAll(ctx context.Context, sessionID string, as Settlement) (SettledCalls, error) {
	doc := SettledCalls{Session: sessionID, Calls: []Settled{}}
	if err := as.Check(); err != nil {
		return doc, err
	}
	if as.As == SettledByCost {
		return doc, invalidf("as", "not one cost for all calls; settle calls with different costs one by one")
	}
	s, key, err := m.inStore(ctx, sessionID)
	if err != nil {
		return doc, err
	}
	err = m.change(ctx, access.Operate, sessionID, access.Event{Action: "budget.settle", Subject: "all calls", Detail: as.detail()}, func(ctx context.Context) error {
		l, err := s.Ledger(key)
		if err != nil {
			return err
		}
		open, err := openCalls(s, key, l)
		if err != nil {
			return err
		}
		var failed []error
		for _, call := range open {
			one, err := m.settle(s, key, call.AssignmentID, call.Call, as, actor(ctx))
			switch {
			case err == nil:
				doc.Calls = append(doc.Calls, one)
			case call.State == budget.Unsettled:
				failed = append(failed, err)
			} // the other assignments are running
		}
		doc.Unsettled = len(failed)
		return errors.Join(failed...)
	})
	return doc, err
}

// detail is the text of a settlement for the audit log.
func (s Settlement) detail() string {
	text := "as " + string(s.As)
	if s.As == SettledByCost {
		text = amountOf(s.Usage)
	}
	if s.Note != "" {
		text += ". " + s.Note
	}
	return text
}

func amountOf(u cost.Usage) string {
	text := fmt.Sprintf("%d tokens", u.Tokens())
	if u.CostUSD != 0 {
		text += fmt.Sprintf(", %s USD", u.CostUSD)
	}
	return text
}

// settle closes one call. It holds the assignment's lock, so others cannot write its journal
// meanwhile.
func (m Money) settle(s *store.Store, key session.Key, id spec.AssignmentID, call int64, as Settlement, by string) (doc Settled, err error) {
	lock, ok, err := s.Lock(key, id)
	if err != nil {
		return doc, err
	}
	if !ok {
		return doc, conflictf(key.Session, "%s of session %s is running; try again when it has ended or waits", id, key.Session)
	}
	defer lock.Unlock()
	j, err := s.Journal(key, id)
	if err != nil {
		return doc, err
	}
	open, err := findOpen(j, key.Session, id, call)
	if err != nil {
		return doc, err
	}
	used := as.Usage
	switch {
	case as.As == SettledAsEstimated:
		used = open.Usage.Max(open.Reported).Add(open.Estimate)
	case as.As == SettledByCost && !as.Priced && open.Estimate.CostUSD > 0:
		return doc, invalidf("cost_usd", "call %d may have cost money (estimated: %s USD); give its cost, or 0", call, open.Estimate.CostUSD)
	}
	doc = Settled{
		Session: key.Session, AssignmentID: id, Call: call, Estimate: open.Estimate, Usage: used, WrittenOff: as.As == WrittenOff, By: by, Note: as.Note,
	}
	l, err := m.closeCall(s, key, j, open, doc)
	for _, row := range l.Rows {
		doc.Unsettled += len(row.Unsettled)
	}
	return doc, err
}

// findOpen finds a call without a known cost. If a call is in progress by the journal, its worker
// was lost: the assignment's lock is free.
func findOpen(j *budget.Journal, sessionID string, id spec.AssignmentID, call int64) (budget.Call, error) {
	i := slices.IndexFunc(j.Calls(), func(c budget.Call) bool { return c.ID == call })
	if i < 0 {
		return budget.Call{}, notFoundf("call %[3]d of %[1]s of session %[2]s not found; `maestro budget show %[2]s` lists unsettled calls", id, sessionID, call)
	}
	c := j.Calls()[i]
	switch c.State {
	case budget.Begun, budget.Unsettled:
		return c, nil
	case budget.Closed:
		by := ""
		if c.By != "" {
			by = " by " + c.By
		}
		return c, conflictf(sessionID, "call %d of %s was already settled%s, %s UTC: %s", call, id, by, c.ClosedAt.UTC().Format(time.DateTime), amountOf(c.Usage))
	default:
		return c, conflictf(sessionID, "call %d of %s needs no settling; its cost is known: %s", call, id, amountOf(c.Usage))
	}
}

// closeCall writes the end of a call to the journal, and then to the ledger.
func (m Money) closeCall(s *store.Store, key session.Key, j *budget.Journal, call budget.Call, doc Settled) (budget.Ledger, error) {
	add := func(e budget.Entry) error {
		e.Seq, e.At, e.Call = j.Next(), m.Now().UTC(), call.ID
		if err := s.AppendEntry(key, doc.AssignmentID, e); err != nil {
			return err
		}
		return j.Apply(e)
	}
	var ledger budget.Ledger
	if call.State == budget.Begun {
		if err := add(budget.Entry{Kind: budget.Unsettled}); err != nil {
			return ledger, err
		}
		call = j.Call(call.ID) // with its reported usage
	}
	rest := doc.Usage.Minus(call.Usage).Max(cost.Usage{}) // a part may be known already
	if err := add(budget.Entry{Kind: budget.Closed, Usage: &rest, By: doc.By, Note: doc.Note}); err != nil {
		return ledger, err
	}
	err := s.UpdateLedger(key, func(l *budget.Ledger) error {
		l.SetRow(doc.AssignmentID, j.Row(l.Row(doc.AssignmentID).Reserved), m.Now().UTC())
		ledger = *l
		return nil
	})
	return ledger, err
}
