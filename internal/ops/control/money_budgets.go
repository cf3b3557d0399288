package control

import (
	"context"
	"time"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// Budgets are the budgets of a session.
type Budgets struct {
	Session string   `json:"session"`
	Budgets []Budget `json:"budgets"`
	// Raises are people's raises, those of the team's day included, and Warnings the thresholds that were reached,
	// oldest first.
	Raises   []budget.Raise   `json:"raises"`
	Warnings []budget.Warning `json:"warnings"`
	// Open are the calls whose cost is unknown, or that are in progress.
	Open []OpenCall `json:"open"`
}

// Budget is a budget in documents.
type Budget struct {
	Scope     string      `json:"scope"`
	Cap       spec.Cap    `json:"cap"`
	Spent     cost.Amount `json:"spent"`
	Unsettled cost.Amount `json:"unsettled"`
	Reserved  cost.Amount `json:"reserved"`
	// Left has only the limited dimensions.
	Left BudgetLeft `json:"left"`
}

// BudgetLeft is what is left of a budget.
type BudgetLeft struct {
	Tokens *int64    `json:"tokens,omitempty"`
	USD    *cost.USD `json:"usd,omitempty"`
}

// OpenCall is a call without a known cost.
type OpenCall struct {
	spec.AssignmentID
	// Call is its id, for `budget settle`.
	Call string `json:"call"`
	// State is unsettled, or begun while it is in progress.
	State   state.CallState `json:"state"`
	Agent   string          `json:"agent"`
	Model   string          `json:"model,omitempty"`
	Pass    int64           `json:"pass"`
	Round   int64           `json:"round"`
	Attempt int64           `json:"attempt"`
	// Number counts the calls of the attempt from 1; 0 is a whole attempt.
	Number  int64     `json:"number"`
	BeganAt time.Time `json:"began_at"`
	// Known is what it has cost for certain, and Estimate an estimate of the rest.
	Known    cost.Usage  `json:"known"`
	Estimate cost.Amount `json:"estimate"`
}

// Budgets lists the budgets of a session, and its calls without a known cost.
func (m Money) Budgets(ctx context.Context, sessionID string) (Budgets, error) {
	doc := Budgets{
		Session: sessionID, Budgets: []Budget{}, Raises: []budget.Raise{}, Warnings: []budget.Warning{},
		Open: []OpenCall{},
	}
	s, key, err := m.InStore(ctx, sessionID)
	if err != nil {
		return doc, err
	}
	a, err := s.State.Account(ctx, key)
	if err != nil {
		return doc, err
	}
	doc.Budgets, doc.Raises = budgetsOf(a.Budgets), append(doc.Raises, a.Raises...)
	for _, b := range ownBudgets(a.Budgets) {
		doc.Warnings = append(doc.Warnings, b.Warnings...)
	}
	open, err := s.State.UnfinishedCalls(ctx, state.Assignment{Key: key})
	for _, c := range open {
		doc.Open = append(doc.Open, openCall(c))
	}
	return doc, err
}

func openCall(c state.Call) OpenCall {
	return OpenCall{
		AssignmentID: c.AssignmentID, Call: c.ID, State: c.State, Agent: c.Agent, Model: c.Model, Pass: c.Pass, Round: c.Round,
		Attempt: c.Attempt,
		Number:  c.Call, BeganAt: time.UnixMicro(c.BegunAt).UTC(), Known: c.Usage, Estimate: c.Estimated,
	}
}

// ownBudgets are a session's own budgets, the largest part of it first; not its team's day.
func ownBudgets(budgets []budget.Budget) (own []budget.Budget) {
	for _, kind := range []session.BudgetScope{session.BudgetOfSession, session.BudgetOfPhase, session.BudgetOfPersona} {
		for _, b := range budgets {
			if b.Kind == kind {
				own = append(own, b)
			}
		}
	}
	return own
}

func budgetsOf(budgets []budget.Budget) []Budget {
	all := []Budget{}
	for _, b := range ownBudgets(budgets) {
		all = append(all, budgetOf(b))
	}
	return all
}

func budgetOf(b budget.Budget) Budget {
	return Budget{Scope: b.Scope(), Cap: b.Cap, Spent: b.Spent, Unsettled: b.Unsettled, Reserved: b.Reserved, Left: leftOf(b)}
}

func leftOf(b budget.Budget) (left BudgetLeft) {
	rest := b.Left()
	if b.Cap.Tokens > 0 {
		left.Tokens = &rest.Tokens
	}
	if b.Cap.USD > 0 {
		left.USD = &rest.USD
	}
	return left
}
