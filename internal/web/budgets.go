package web

import (
	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/web/chart"
)

// BudgetRow is one dimension of a budget as a bar.
type BudgetRow struct {
	Scope string
	chart.BudgetBar
	// Level is near from 80% on, and over from 100% on.
	Level                                 string
	Cap, Spent, Unsettled, Reserved, Left string
}

// budgetRows has a bar for the tokens and one for the money of each budget, as far as they are limited.
func budgetRows(budgets []budget.Budget) []BudgetRow {
	var rows []BudgetRow
	for _, b := range budgets {
		if b.Cap.USD > 0 {
			money := func(n int64) string { return dollars(cost.USD(n)) }
			rows = append(rows, budgetRow(b.Scope(), money, int64(b.Cap.USD), int64(b.Spent.USD), int64(b.Unsettled.USD), int64(b.Reserved.USD)))
		}
		if b.Cap.Tokens > 0 {
			tokens := func(n int64) string { return terminal.Number(n) + " tokens" }
			rows = append(rows, budgetRow(b.Scope(), tokens, b.Cap.Tokens, b.Spent.Tokens, b.Unsettled.Tokens, b.Reserved.Tokens))
		}
	}
	return rows
}

func budgetRow(scope string, text func(int64) string, limit, spent, unsettled, reserved int64) BudgetRow {
	r := BudgetRow{
		Scope: safetext.Line(scope), BudgetBar: chart.Budget(spent, unsettled, reserved, limit),
		Cap: text(limit), Spent: text(spent), Left: text(max(limit-spent-unsettled-reserved, 0)),
	}
	if unsettled > 0 {
		r.Unsettled = text(unsettled)
	}
	if reserved > 0 {
		r.Reserved = text(reserved)
	}
	switch {
	case r.Used >= 100:
		r.Level = "over"
	case r.Used >= 80:
		r.Level = "near"
	}
	return r
}
