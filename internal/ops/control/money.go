package control

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/workflows"
)

// Money are the budgets and costs of sessions and teams.
type Money struct{ *Base }

// Raise is the raise of a session's budget.
type Raise struct {
	Tokens  int64    `json:"tokens,omitempty" minimum:"0" doc:"tokens to add"`
	USD     cost.USD `json:"usd,omitempty" doc:"dollars to add"`
	Persona string   `json:"persona,omitempty" maxLength:"100" doc:"raise this persona's budget"`
	Phase   string   `json:"phase,omitempty" maxLength:"100" doc:"raise this phase's budget"`
	Session bool     `json:"session,omitempty" doc:"raise the session's own budget"`
	Note    string   `json:"note,omitempty" maxLength:"4096" doc:"why, for the record"`
}

// Raised is the document of a raised budget.
type Raised struct {
	Session string `json:"session"`
	// Raised is the cap after the raise; null: no worker has answered yet.
	Raised *activities.Raised `json:"raised"`
}

// Raise raises a budget of a running session; work that waits for it continues. Errors of kind
// [Conflict] have the reason [Lost] or [Ended].
func (m Money) Raise(ctx context.Context, sessionID string, in Raise) (Raised, error) {
	doc := Raised{Session: sessionID}
	w, err := m.reader(sessionID)
	if err != nil {
		return doc, err
	}
	r := workflows.Raise{
		Tokens: in.Tokens, USD: in.USD, Persona: in.Persona, Phase: in.Phase, Session: in.Session, Note: in.Note,
		By: actor(ctx),
	}
	r.ID = cmp.Or(changeID(ctx, "raise", sessionID, in), fmt.Sprintf("%s/%d", r.By, m.Now().UnixNano()))
	event := access.Event{
		Action: "budget.raise", Subject: strings.TrimSpace(r.Phase + " " + r.Persona),
		Detail: raiseDetail(r.Tokens, r.USD, r.Note),
	}
	err = m.change(ctx, access.Operate, sessionID, event, func(ctx context.Context) error {
		if _, err := m.describeRunning(ctx, w); err != nil {
			return err
		}
		var raised activities.Raised
		msg := message{update: workflows.RaiseUpdate, id: r.ID, argument: r}
		accepted, err := send(ctx, w.Conn, sessionID, msg, &raised)
		switch {
		case err != nil:
			return err
		case accepted:
			doc.Raised = &raised
			return nil
		}
		if err := m.checkRaise(ctx, sessionID, r); err != nil {
			return err
		}
		return msg.signal(ctx, w.Conn, sessionID)
	})
	return doc, err
}

// checkRaise refuses a raise of a budget that the session does not have. Its sender would not hear that from a worker that
// reads it later.
func (m Money) checkRaise(ctx context.Context, sessionID string, r workflows.Raise) error {
	scope := r.Scope()
	if scope == "" {
		return nil
	}
	a, err := m.Store.State.Account(ctx, m.key(sessionID))
	if err != nil { // the worker decides
		return nil //nolint:nilerr // see above
	}
	if why := r.Misses(scope, a.Budget(scope).Cap); why != "" {
		return invalidf("amount", "session %s: the budget was not raised: %s", sessionID, why)
	}
	return nil
}
