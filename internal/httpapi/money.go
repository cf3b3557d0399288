package httpapi

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/workflows"
)

// raiseInput is what a budget is raised by.
type raiseInput struct {
	Session string `path:"session" maxLength:"200" doc:"the session's id"`
	Body    struct {
		Tokens  int64    `json:"tokens,omitempty" minimum:"0" doc:"tokens to add"`
		USD     cost.USD `json:"usd,omitempty" doc:"dollars to add"`
		Persona string   `json:"persona,omitempty" maxLength:"100" doc:"raise this persona's budget"`
		Phase   string   `json:"phase,omitempty" maxLength:"100" doc:"raise this phase's budget"`
		Session bool     `json:"session,omitempty" doc:"raise the session's own budget"`
		Note    string   `json:"note,omitempty" maxLength:"4096" doc:"why, for the record"`
	}
}

func money(api huma.API, m control.Money) {
	register(api, operation("GET /sessions/{session}/budgets", "list-budgets", "List the budgets of a session, and its calls with unknown cost"),
		func(ctx context.Context, in *ofSession) (control.Budgets, error) { return m.Budgets(ctx, in.Session) })
	register(api, operation("POST /sessions/{session}/budget/raise", "raise-budget", "Raise a budget of a running session: without a name, the one that it waits for"),
		func(ctx context.Context, in *raiseInput) (control.Raised, error) {
			b := in.Body
			return m.Raise(ctx, in.Session, workflows.Raise{Tokens: b.Tokens, USD: b.USD, Persona: b.Persona, Phase: b.Phase, Session: b.Session, Note: b.Note})
		})
}
