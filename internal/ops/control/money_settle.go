package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state"
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
	As    SettledAs   `json:"as" enum:"cost,estimated,nothing" doc:"what it counts as: its cost, which is in usage, its estimate, or nothing"`
	Usage *cost.Usage `json:"usage,omitempty" doc:"what it has cost"`
	Note  string      `json:"note,omitempty" maxLength:"4096" doc:"where the figure comes from"`
	// Unpriced: only the tokens of the cost are known.
	Unpriced bool `json:"-"`
}

// SettleInput settles a call whose cost was not known.
type SettleInput struct {
	Session string `path:"session" maxLength:"200" doc:"the session's id"`
	Call    string `path:"call" maxLength:"64" doc:"the call's id, as the session's budgets list it"`
	Body    Settlement
}

// Settled is the document of a settled call.
type Settled struct {
	Session string `json:"session"`
	spec.AssignmentID
	Call string `json:"call"`
	// Estimate is the booked estimate, Usage the cost of the call.
	Estimate   cost.Amount `json:"estimate"`
	Usage      cost.Usage  `json:"usage"`
	WrittenOff bool        `json:"written_off"`
	By         string      `json:"by"`
	Note       string      `json:"note"`
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
	switch s.As {
	case SettledByCost:
		if s.Usage == nil {
			return invalidf("usage", "missing; give what the call has cost")
		}
	case SettledAsEstimated, WrittenOff:
		if s.Usage != nil {
			return invalidf("usage", "it has a cost, but the call is to count as %s; leave one out", s.As)
		}
	default:
		return invalidf("as", "%q is unknown; use %s, %s or %s", textfmt.Shorten(string(s.As), 40), SettledByCost, SettledAsEstimated,
			WrittenOff)
	}
	used := s.used()
	if err := invalid("", used.Validate()); err != nil {
		return err
	}
	if used.ReasoningTokens > used.OutputTokens {
		return invalidf("reasoning_tokens", "%d is more than the output tokens, which include it (%d)", used.ReasoningTokens,
			used.OutputTokens)
	}
	return CheckNote(s.Note)
}

// used is the cost that a person states.
func (s Settlement) used() cost.Usage {
	if s.Usage == nil {
		return cost.Usage{}
	}
	return *s.Usage
}

// Settle records the cost of a call with unknown cost, whose worker or connection was lost. An
// error of kind [Conflict] reports that the call is in progress, or that its cost is known.
func (m Money) Settle(ctx context.Context, in SettleInput) (doc Settled, err error) {
	as := in.Body
	if err := as.Check(); err != nil {
		return doc, err
	}
	s, key, err := m.InStore(ctx, in.Session)
	if err != nil {
		return doc, err
	}
	event := access.Event{Action: "budget.settle", Subject: "call " + textfmt.Shorten(in.Call, 40), Detail: as.detail()}
	err = m.change(ctx, access.Operate, in.Session, event, func(ctx context.Context) error {
		doc, err = m.settle(ctx, s, key, in.Call, as)
		return err
	})
	return doc, err
}

// SettleAll settles all calls of a session with unknown cost, except those in progress.
// With an error, the document has the calls that were settled before it.
func (m Money) SettleAll(ctx context.Context, sessionID string, as Settlement) (SettledCalls, error) {
	doc := SettledCalls{Session: sessionID, Calls: []Settled{}}
	if err := as.Check(); err != nil {
		return doc, err
	}
	if as.As == SettledByCost {
		return doc, invalidf("as", "not one cost for all calls; settle calls with different costs one by one")
	}
	s, key, err := m.InStore(ctx, sessionID)
	if err != nil {
		return doc, err
	}
	err = m.change(ctx, access.Operate, sessionID, access.Event{Action: "budget.settle", Subject: "all calls", Detail: as.detail()},
		func(ctx context.Context) error {
			open, err := s.State.UnfinishedCalls(ctx, state.Assignment{Key: key})
			if err != nil {
				return err
			}
			var failed []error
			for _, call := range open {
				one, err := m.settle(ctx, s, key, call.ID, as)
				switch {
				case err == nil:
					doc.Calls = append(doc.Calls, one)
				case call.State == state.CallUnsettled:
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
		text = amountOf(s.used())
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

// settle closes one call. A call in progress whose worker was lost becomes unsettled first: its assignment's lock is free.
func (m Money) settle(ctx context.Context, s *store.Store, key session.Key, id string, as Settlement) (doc Settled, err error) {
	call, err := s.State.Call(ctx, key, id)
	if errors.Is(err, state.ErrNotFound) {
		return doc, notFoundf("call %[2]s of session %[1]s not found; `maestro budget show %[1]s` lists unsettled calls", key.Session,
			textfmt.Shorten(id, 40))
	}
	if err == nil {
		err = checkOpen(call)
	}
	if err != nil {
		return doc, err
	}
	if call.State == state.CallBegun {
		lock, ok, err := s.Lock(ctx, key, call.AssignmentID)
		if err != nil {
			return doc, err
		}
		if !ok {
			return doc, conflictf(key.Session, "%s of session %s is running; try again when it has ended or waits", call.AssignmentID,
				key.Session)
		}
		defer lock.Unlock()
		if err := s.State.End(ctx, id, state.CallEnd{State: state.CallUnsettled}); err != nil {
			return doc, err
		}
	}
	used := as.used()
	switch {
	case as.As == SettledAsEstimated:
		used = call.Usage.Add(cost.Usage{OutputTokens: call.Estimated.Tokens, CostUSD: call.Estimated.USD})
	case as.As == SettledByCost && as.Unpriced && call.Estimated.USD > 0:
		return doc, invalidf("cost_usd", "call %s may have cost money (estimated: %s USD); give its cost, or 0", id, call.Estimated.USD)
	}
	doc = Settled{
		Session: key.Session, AssignmentID: call.AssignmentID, Call: id, Estimate: call.Estimated, Usage: used,
		WrittenOff: as.As == WrittenOff, By: actor(ctx), Note: as.Note,
	}
	rest := used.Minus(call.Usage).Max(cost.Usage{}) // a part may be known already
	if err := s.State.CloseCall(ctx, id, rest, doc.By, doc.Note); err != nil {
		return doc, err
	}
	open, err := s.State.UnfinishedCalls(ctx, state.Assignment{Key: key})
	for _, c := range open {
		if c.State == state.CallUnsettled {
			doc.Unsettled++
		}
	}
	return doc, err
}

// checkOpen rejects a call whose cost is known.
func checkOpen(c state.Call) error {
	switch c.State {
	case state.CallBegun, state.CallUnsettled:
		return nil
	case state.CallClosed:
		by := ""
		if c.ClosedBy != "" {
			by = " by " + c.ClosedBy
		}
		at := time.UnixMicro(c.ClosedAt.V).UTC().Format(time.DateTime)
		return conflictf(c.Session, "call %s was already settled%s, %s UTC: %s", c.ID, by, at, amountOf(c.Usage))
	default:
		return conflictf(c.Session, "call %s needs no settling; its cost is known: %s", c.ID, amountOf(c.Usage))
	}
}
