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
	// Faults are documents that were found damaged during the request.
	Faults []error `json:"-"`
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
	f.Sessions.Namespace, doc.Rows = m.Namespace, []usage.Row{}
	costs, err := m.Store.State.Usage(ctx, f.By, f.Since, f.Sessions)
	for _, c := range costs {
		row := usage.Row{
			Team: c.Team, Session: c.Session, Phase: c.Phase, Persona: c.Persona, Agent: c.Agent, Model: c.Model, Day: c.Day, Spending: usage.Of(c.Cost),
		}
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
	read, err := usage.OfSession(ctx, s, key)
	if read.Damage != nil {
		doc.Faults = []error{read.Damage}
	}
	doc.Rows, doc.Total = usage.Sum(read.Rows, by, since)
	doc.Budgets = budgetsOf(read.Account.Budgets)
	return doc, err
}
