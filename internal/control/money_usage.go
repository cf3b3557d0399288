package control

import (
	"context"

	"github.com/maestro-hive/maestro/internal/access"
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
	if err := access.Check(ctx, access.View, access.AllTeams); err != nil {
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
