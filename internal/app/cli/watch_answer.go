package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/tui"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
)

// Answer sends an answer that the user typed in the live view, and returns what the command for
// it prints.
func (c *viewSource) Answer(ctx context.Context, answer tui.Answer) (string, error) {
	ctx = c.app.env.acting(ctx)
	quiet, out := c.captured()
	quiet.stderr, quiet.palette.On = out, false
	if answer.Action == tui.Raise {
		err := (&budgetRaise{quiet.console, quiet.connector}).raiseTyped(ctx, c.session, answer)
		return out.String(), err
	}
	command := resolveCommandOf(quiet)
	err := command.answerTyped(ctx, c.session, answer)
	return out.String(), err
}

// answerTyped answers a request like `approve`, `reject` and `resolve SESSION retry`.
func (c *resolveCommand) answerTyped(ctx context.Context, sessionID string, answer tui.Answer) error {
	if err := checkPhaseAnswer(answer.Action, answer.Note); err != nil {
		return err
	}
	c.action, c.request, c.note = answer.Action, answer.Request.ID, answer.Note
	return c.resolve(ctx, sessionID, "")
}

// raiseTyped raises a budget like `budget raise`.
func (c *budgetRaise) raiseTyped(ctx context.Context, sessionID string, answer tui.Answer) error {
	r := control.Raise{Note: answer.Note}
	if err := addAmount(&r, answer.Amount, answer.Request.Amounts); err != nil {
		return err
	}
	switch b := answer.Request.Budget; b.Scope {
	case session.BudgetOfPersona:
		r.Persona = b.Name
	case session.BudgetOfPhase:
		r.Phase = b.Name
	case session.BudgetOfDay:
		return c.raiseDay(ctx, b.Name, r)
	case session.BudgetOfSession:
	}
	return c.raise(ctx, sessionID, r)
}

// addAmount parses a typed amount: a number of tokens, also like 50k, or dollars with a $ before them. unit is the unit
// of a number without one.
func addAmount(r *control.Raise, text, unit string) error {
	invalid := usagef("%q is not an amount; use a number of tokens like 50000, or dollars like $1.50", textfmt.Shorten(text, 40))
	number, money := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(strings.TrimSpace(text), ",", "")), "$")
	if money || unit == unitUSD {
		if err := r.USD.UnmarshalText([]byte(number)); err != nil || r.USD <= 0 {
			return invalid
		}
		return nil
	}
	factor := int64(1)
	for suffix, f := range map[string]int64{"k": 1_000, "m": 1_000_000} {
		if cut, ok := strings.CutSuffix(number, suffix); ok {
			number, factor = cut, f
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > 1e12 {
		return invalid
	}
	r.Tokens = n * factor
	return nil
}

// unitUSD is the unit of a budget in dollars only.
const unitUSD = "USD"

// units names the units of a budget.
func units(tokens, usd bool) string {
	switch {
	case tokens && usd:
		return "tokens or $USD"
	case usd:
		return unitUSD
	}
	return "tokens"
}

// addKeyActions adds to a request what its answers can do.
func addKeyActions(r *tui.Request, h session.Request) {
	r.ID, r.Of, r.Name = h.ID, spec.AssignmentID{Phase: h.Phase, Persona: h.Persona}, h.Subject()
	for _, action := range h.Actions {
		if h.Takes(action) {
			r.Takes = append(r.Takes, action)
		}
	}
	if h.Raise == nil {
		return
	}
	r.Takes, r.Budget = append(r.Takes, tui.Raise), *h.Raise
	r.Amounts = units(h.Raise.Tokens, h.Raise.USD)
}

// ownBudget returns the session's budget if a key can raise it: no budget request is open.
func ownBudget(v sessionstatus.Session) []tui.Request {
	asked := slices.ContainsFunc(v.Help, func(h session.Request) bool { return h.Kind == session.ForBudget })
	if v.Status.Status.Closed() || asked || v.Limit == (spec.Cap{}) {
		return nil
	}
	return []tui.Request{{
		Name: "the session's budget", Takes: []session.Action{tui.Raise}, Amounts: units(v.Limit.Tokens > 0, v.Limit.USD > 0),
	}}
}
