package web

import (
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// BudgetRow is one dimension of a budget as a bar.
type BudgetRow struct {
	Scope, Cap, Left string
	Parts            []BudgetPart
	// Near: it is spent to 80 percent or more.
	Near bool
}

// BudgetPart is a part of the bar, with its place in percent. Class and Key are those of the stylesheet.
type BudgetPart struct {
	Class, Key, Text string
	From, Width      float64
}

// budgetRows has a bar for the tokens and one for the money of each budget, as far as they are limited.
func budgetRows(budgets []budget.Budget) []BudgetRow {
	var rows []BudgetRow
	for _, b := range budgets {
		if b.Cap.USD > 0 {
			money := func(n int64) string { return dollars(cost.USD(n)) }
			rows = append(rows, budgetRow(b.Scope(), money, int64(b.Cap.USD), int64(b.Spent.USD), int64(b.Unsettled.USD),
				int64(b.Reserved.USD)))
		}
		if b.Cap.Tokens > 0 {
			tokens := func(n int64) string { return terminal.Number(n) + " tokens" }
			rows = append(rows, budgetRow(b.Scope(), tokens, b.Cap.Tokens, b.Spent.Tokens, b.Unsettled.Tokens, b.Reserved.Tokens))
		}
	}
	return rows
}

// budgetRow divides a cap. Where more is used than the cap allows, the parts share the whole bar.
func budgetRow(scope string, text func(int64) string, limit, spent, unsettled, reserved int64) BudgetRow {
	used := spent + unsettled + reserved
	r := BudgetRow{Scope: safetext.Line(scope), Cap: text(limit), Left: text(max(limit-used, 0))}
	level := ""
	switch share := float64(spent+unsettled) / float64(limit); {
	case share >= 1:
		level = " over"
	case share >= .8:
		level = " near"
	}
	r.Near = level != ""
	at := 0.0
	for _, p := range []struct {
		class, key, what string
		amount           int64
	}{
		{"spent" + level, "spent-key" + level, " spent", spent},
		{"unsettled", "solid ask", " unsettled", unsettled},
		{"reserved", "active", " reserved", reserved},
	} {
		if p.amount > 0 || len(r.Parts) == 0 {
			width := float64(p.amount) / float64(max(limit, used)) * 100
			r.Parts = append(r.Parts, BudgetPart{Class: p.class, Key: p.key, Text: text(p.amount) + p.what, From: at, Width: width})
			at += width
		}
	}
	return r
}
