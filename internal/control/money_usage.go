package control

import (
	"context"
	"strings"

	"github.com/maestro-hive/maestro/internal/usage"
)

// CostFilter selects costs by their day, and says how they are written.
type CostFilter struct {
	From   string `query:"from" maxLength:"10" doc:"only costs of this day, by UTC, and later, like 2026-11-21"`
	Format string `query:"format" enum:"json,csv" doc:"the format; left out: that of Accept, otherwise JSON"`
	Accept string `header:"Accept" maxLength:"1000" hidden:"true"`
}

// CSV is the content type of tables.
const CSV = "text/csv"

// AsCSV reports whether the costs are written as a table.
func (f CostFilter) AsCSV() bool {
	return f.Format == "csv" || f.Format == "" && strings.HasPrefix(f.Accept, CSV)
}

// UsageFilter selects costs and the groups of their sums, by keys of [usage.Keys].
type UsageFilter struct {
	HistoryFilter
	CostFilter
}

// SessionUsageFilter is like [UsageFilter] for one session.
type SessionUsageFilter struct {
	Session string   `path:"session" maxLength:"200" doc:"the session's id"`
	By      []string `query:"by" maxItems:"20" default:"phase,persona" doc:"fields to group by, separated by commas"`
	CostFilter
}

// Usage is the cost of the sessions of the store.
type Usage struct {
	// By are the keys of the groups.
	By    []string       `json:"-"`
	Rows  []usage.Row    `json:"rows"`
	Total usage.Spending `json:"total"`
	// Budgets are those of the session, if one was requested.
	Budgets []Budget `json:"budgets,omitempty"`
	// Faults are documents that were found damaged during the request.
	Faults []error `json:"-"`
}

// Usage sums the costs of the sessions of the store.
func (m Money) Usage(ctx context.Context, in UsageFilter) (Usage, error) {
	doc := Usage{By: in.By, Rows: []usage.Row{}}
	if err := checkKeys(in.By, usage.Keys); err != nil {
		return doc, err
	}
	f, err := in.selected(ctx, m.Base)
	if err != nil {
		return doc, err
	}
	costs, err := m.Store.State.Usage(ctx, in.By, in.From, f)
	for _, c := range costs {
		row := usage.Row{
			Team: c.Team, Session: c.Session, Phase: c.Phase, Persona: c.Persona, Agent: c.Agent, Model: c.Model, Day: c.Day, Spending: usage.Of(c.Cost),
		}
		doc.Rows, doc.Total = append(doc.Rows, row), doc.Total.Add(row.Spending)
	}
	return doc, err
}

// SessionUsage sums the costs of a session, and lists its budgets.
func (m Money) SessionUsage(ctx context.Context, in SessionUsageFilter) (Usage, error) {
	doc := Usage{By: in.By}
	if err := checkKeys(in.By, usage.Keys); err != nil {
		return doc, err
	}
	s, key, err := m.inStore(ctx, in.Session)
	if err != nil {
		return doc, err
	}
	read, err := usage.OfSession(ctx, s, key)
	if read.Damage != nil {
		doc.Faults = []error{read.Damage}
	}
	doc.Rows, doc.Total = usage.Sum(read.Rows, in.By, in.From)
	doc.Budgets = budgetsOf(read.Account.Budgets)
	return doc, err
}
