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

// ofTeam is the input of an operation on a team.
type ofTeam struct {
	Team string `path:"team" maxLength:"63" doc:"the team's name"`
}

// raiseDayInput is what a team's daily budget is raised by.
type raiseDayInput struct {
	Team string `path:"team" maxLength:"63" doc:"the team's name"`
	Body struct {
		Tokens int64    `json:"tokens,omitempty" minimum:"0" doc:"tokens to add"`
		USD    cost.USD `json:"usd,omitempty" doc:"dollars to add"`
		Note   string   `json:"note,omitempty" maxLength:"4096" doc:"why, for the record"`
	}
}

// settlement says what calls have cost.
type settlement struct {
	As    control.SettledAs `json:"as" enum:"cost,estimated,nothing" doc:"what it counts as: its cost, which is in usage, its estimate, or nothing"`
	Usage *cost.Usage       `json:"usage,omitempty" doc:"what it has cost"`
	Note  string            `json:"note,omitempty" maxLength:"4096" doc:"where the figure comes from"`
}

func (s settlement) as() control.Settlement {
	as := control.Settlement{As: s.As, Note: s.Note, Priced: s.Usage != nil}
	if s.Usage != nil {
		as.Usage = *s.Usage
	}
	return as
}

// settleInput names a call whose cost was not known.
type settleInput struct {
	Session string `path:"session" maxLength:"200" doc:"the session's id"`
	Call    string `path:"call" maxLength:"64" doc:"the call's id, as the session's budgets list it"`
	Body    settlement
}

// settleAllInput says what all calls whose cost was not known count as.
type settleAllInput struct {
	Session string `path:"session" maxLength:"200" doc:"the session's id"`
	Body    struct {
		As   control.SettledAs `json:"as" enum:"estimated,nothing" doc:"what each counts as: its estimate, or nothing"`
		Note string            `json:"note,omitempty" maxLength:"4096" doc:"why, for the record"`
	}
}

// dayList is the daily budgets of teams.
type dayList struct {
	Days []control.Day `json:"days"`
}

func money(api huma.API, m control.Money) {
	register(api, operation("GET /budgets", "list-day-budgets", "List the daily budgets of teams, today"),
		func(ctx context.Context, _ *none) (dayList, error) {
			days, err := m.Days(ctx)
			return dayList{days}, err
		})
	register(api, operation("GET /budgets/{team}", "read-day-budget", "Read a team's daily budget, today"),
		func(ctx context.Context, in *ofTeam) (control.Day, error) { return m.Day(ctx, in.Team) })
	register(api, operation("POST /budgets/{team}/raise", "raise-day-budget", "Raise a team's daily budget, for today: sessions that wait for the next day continue"),
		func(ctx context.Context, in *raiseDayInput) (control.Day, error) {
			return m.RaiseDay(ctx, in.Team, control.DayRaise{Tokens: in.Body.Tokens, USD: in.Body.USD, Note: in.Body.Note})
		})
	register(api, operation("POST /sessions/{session}/calls/{call}/settle", "settle-call", "Record what a call has cost whose cost was not known"),
		func(ctx context.Context, in *settleInput) (control.Settled, error) {
			return m.Settle(ctx, in.Session, in.Call, in.Body.as())
		})
	register(api, operation("POST /sessions/{session}/calls/settle", "settle-calls", "Settle all calls of a session whose cost is not known"),
		func(ctx context.Context, in *settleAllInput) (control.SettledCalls, error) {
			return m.SettleAll(ctx, in.Session, control.Settlement{As: in.Body.As, Note: in.Body.Note})
		})
	register(api, operation("GET /sessions/{session}/budgets", "list-budgets", "List the budgets of a session, and its calls with unknown cost"),
		func(ctx context.Context, in *ofSession) (control.Budgets, error) { return m.Budgets(ctx, in.Session) })
	register(api, operation("POST /sessions/{session}/budget/raise", "raise-budget", "Raise a budget of a running session: without a name, the one that it waits for"),
		func(ctx context.Context, in *raiseInput) (control.Raised, error) {
			b := in.Body
			return m.Raise(ctx, in.Session, workflows.Raise{Tokens: b.Tokens, USD: b.USD, Persona: b.Persona, Phase: b.Phase, Session: b.Session, Note: b.Note})
		})
}
