package control

import (
	"context"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// UsageFilter selects costs and the groups of their sums, by keys of [state.CostKeys].
type UsageFilter struct {
	HistoryFilter
	From string `query:"from" maxLength:"10" doc:"only costs of this day, by UTC, and later, like 2026-11-21"`
}

// SessionUsageFilter is like [UsageFilter] for one session.
type SessionUsageFilter struct {
	Session string   `path:"session" maxLength:"200" doc:"the session's id"`
	By      []string `query:"by" maxItems:"20" default:"phase,persona" doc:"fields to group by, separated by commas"`
	From    string   `query:"from" maxLength:"10" doc:"only costs of this day, by UTC, and later, like 2026-11-21"`
}

// Usage is the cost of the sessions of the store.
type Usage struct {
	// By are the keys of the groups.
	By    []string       `json:"-"`
	Rows  []state.Cost   `json:"rows"`
	Total state.Spending `json:"total"`
	// Budgets are those of the session, if one was requested.
	Budgets []Budget `json:"budgets,omitempty"`
}

// Usage sums the costs of the sessions of the store.
func (m Money) Usage(ctx context.Context, in UsageFilter) (Usage, error) {
	if err := checkKeys(in.By, state.CostKeys); err != nil {
		return Usage{}, err
	}
	f, err := in.selected(ctx, m.Base)
	if err != nil {
		return Usage{}, err
	}
	return m.sums(ctx, in.By, in.From, f)
}

// sums sums the costs of sessions.
func (m Money) sums(ctx context.Context, by []string, from string, f state.Filter) (Usage, error) {
	costs, err := m.Store.State.Usage(ctx, by, from, f)
	return Usage{By: by, Rows: append([]state.Cost{}, costs...), Total: state.Sum(costs, spec.AssignmentID{}).Spending}, err
}

// SessionUsage sums the costs of a session, and lists its budgets.
func (m Money) SessionUsage(ctx context.Context, in SessionUsageFilter) (Usage, error) {
	doc := Usage{By: in.By}
	if err := checkKeys(in.By, state.CostKeys); err != nil {
		return doc, err
	}
	s, key, err := m.InStore(ctx, in.Session)
	if err != nil {
		return doc, err
	}
	if doc, err = m.sums(ctx, in.By, in.From, state.Filter{Namespace: m.Namespace, Session: key.Session}); err != nil {
		return doc, err
	}
	account, err := s.State.Account(ctx, key)
	doc.Budgets = budgetsOf(account.Budgets)
	return doc, err
}
