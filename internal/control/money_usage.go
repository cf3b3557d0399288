package control

import (
	"context"

	"github.com/maestro-hive/maestro/internal/state"
	"github.com/maestro-hive/maestro/internal/usage"
)

// UsageFilter selects costs and the groups of their sums.
type UsageFilter struct {
	// By are the keys of the groups, of [usage.Keys].
	By []string
	// Since leaves out the costs of earlier days; empty: none.
	Since string
	// Sessions selects the sessions; its Namespace, After and Limit are ignored.
	Sessions state.Filter
}

// Usage is the cost of the sessions of the store.
type Usage struct {
	Rows  []usage.Row    `json:"rows"`
	Total usage.Spending `json:"total"`
	// Budgets are those of the session, if one was requested.
	Budgets []Budget `json:"budgets,omitempty"`
}

// Usage sums the costs of the sessions of the store.
func (m Money) Usage(ctx context.Context, f UsageFilter) (doc Usage, err error) {
	if err := checkKeys(f.By, usage.Keys); err != nil {
		return doc, err
	}
	if _, err := m.stored(); err != nil {
		return doc, err
	}
	if f.Sessions.Teams, err = seen(ctx, f.Sessions.Teams); err != nil {
		return doc, err
	}
	return m.sums(ctx, f)
}

// sums sums the costs of the sessions of the namespace.
func (m Money) sums(ctx context.Context, f UsageFilter) (doc Usage, err error) {
	f.Sessions.Namespace, doc.Rows = m.Namespace, []usage.Row{}
	costs, err := m.Store.State.Usage(ctx, f.By, f.Since, f.Sessions)
	for _, c := range costs {
		row := usage.Of(c)
		doc.Rows, doc.Total = append(doc.Rows, row), doc.Total.Add(row.Spending)
	}
	return doc, err
}

// SessionUsage sums the costs of a session, and lists its budgets.
func (m Money) SessionUsage(ctx context.Context, sessionID string, by []string, since string) (doc Usage, err error) {
	if err := checkKeys(by, usage.Keys); err != nil {
		return doc, err
	}
	s, key, err := m.inStore(ctx, sessionID)
	if err != nil {
		return doc, err
	}
	if doc, err = m.sums(ctx, UsageFilter{By: by, Since: since, Sessions: state.Filter{Session: key.Session}}); err != nil {
		return doc, err
	}
	account, err := s.State.Account(ctx, key)
	doc.Budgets = budgetsOf(account.Budgets)
	return doc, err
}
