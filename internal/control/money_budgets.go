package control

import (
	"context"
	"time"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

// Budgets are the budgets of a session.
type Budgets struct {
	Session string   `json:"session"`
	Budgets []Budget `json:"budgets"`
	// Raises are people's raises, and Warnings the thresholds that were reached,
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
	// Call is its number for `budget settle`.
	Call int64 `json:"call"`
	// State is unsettled, or begun while it is in progress.
	State    budget.Kind     `json:"state"`
	Agent    string          `json:"agent"`
	Model    string          `json:"model,omitempty"`
	Key      session.CallKey `json:"key"`
	BeganAt  time.Time       `json:"began_at"`
	Estimate cost.Usage      `json:"estimate"`
}

// Budgets lists the budgets of a session, and its calls without a known cost.
func (m Money) Budgets(ctx context.Context, sessionID string) (Budgets, error) {
	doc := Budgets{Session: sessionID, Budgets: []Budget{}, Raises: []budget.Raise{}, Warnings: []budget.Warning{}, Open: []OpenCall{}}
	s, key, err := m.inStore(ctx, sessionID)
	if err != nil {
		return doc, err
	}
	l, err := s.Ledger(key)
	if err != nil {
		return doc, err
	}
	doc.Budgets, doc.Raises, doc.Warnings = budgetsOf(l), append(doc.Raises, l.Raises...), append(doc.Warnings, l.Warnings...)
	doc.Open, err = openCalls(s, key, l)
	return doc, err
}

// budgetsOf lists a ledger's budgets.
func budgetsOf(l budget.Ledger) []Budget {
	all := []Budget{}
	for _, b := range l.Budgets() {
		all = append(all, Budget{Scope: b.Scope, Cap: b.Cap, Spent: b.Spent, Unsettled: b.Unsettled, Reserved: b.Reserved, Left: leftOf(b.Left)})
	}
	return all
}

// leftOf is what is left; a negative dimension is not limited.
func leftOf(a cost.Amount) (left BudgetLeft) {
	if a.Tokens >= 0 {
		left.Tokens = &a.Tokens
	}
	if a.USD >= 0 {
		left.USD = &a.USD
	}
	return left
}

// openCalls lists the calls of a session without a known cost, oldest first within each assignment.
func openCalls(s *store.Store, key session.Key, l budget.Ledger) ([]OpenCall, error) {
	calls := []OpenCall{}
	for _, id := range l.Assignments() {
		j, err := s.Journal(key, id)
		if err != nil {
			return nil, err
		}
		for _, c := range j.Calls() {
			if c.State == budget.Begun || c.State == budget.Unsettled {
				calls = append(calls, OpenCall{
					AssignmentID: id, Call: c.ID, State: c.State, Agent: c.Agent, Model: c.Model, Key: c.Key, BeganAt: c.BeganAt, Estimate: c.Estimate,
				})
			}
		}
	}
	return calls, nil
}
