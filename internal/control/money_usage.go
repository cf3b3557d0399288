package control

import (
	"context"

	"github.com/maestro-hive/maestro/internal/index"
	"github.com/maestro-hive/maestro/internal/usage"
)

// UsageFilter says which costs are added up, and how.
type UsageFilter struct {
	// By are the keys of the groups, of [usage.Keys].
	By []string
	// Since leaves out the costs of the days before; empty: none.
	Since string
	// Sessions selects the sessions; its Namespace, After and Limit do not matter.
	Sessions index.Filter
}

// Usage is what the sessions of the store have cost.
type Usage struct {
	Rows  []usage.Row    `json:"rows"`
	Total usage.Spending `json:"total"`
	// Budgets are those of the one session that was asked for.
	Budgets []Budget `json:"budgets,omitempty"`
	// Faults are documents that were found damaged just now.
	Faults []error `json:"-"`
}

// Usage adds up what the sessions of the store have cost.
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
	x, found, done, err := m.indexed(ctx)
	if err != nil {
		return doc, err
	}
	defer done()
	f.Sessions.Namespace, doc.Faults = m.Namespace, found.Faults
	doc.Rows, doc.Total, err = x.Usage(ctx, f.By, f.Since, f.Sessions)
	return doc, err
}

// SessionUsage adds up what a session has cost, and lists its budgets.
func (m Money) SessionUsage(ctx context.Context, sessionID string, by []string, since string) (doc Usage, err error) {
	if err := checkKeys(by, usage.Keys); err != nil {
		return doc, err
	}
	s, key, err := m.inStore(ctx, sessionID)
	if err != nil {
		return doc, err
	}
	read, err := usage.OfSession(s, key)
	if read.Damage != nil {
		doc.Faults = []error{read.Damage}
	}
	doc.Rows, doc.Total = usage.Sum(read.Rows, by, since)
	doc.Budgets = budgetsOf(read.Ledger)
	return doc, err
}
