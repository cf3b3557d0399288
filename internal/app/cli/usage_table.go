package cli

import (
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/usage"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// column is a column of costs in a table.
type column struct {
	head string
	// optional: it is left out where it is empty in all rows.
	optional bool
	text     func(s usage.Spending) string
}

func costColumns() []column {
	part := func(head string, optional bool, of func(cost.Usage) int64) column {
		return column{head, optional, func(s usage.Spending) string { return terminal.Figure(of(s.Usage)) }}
	}
	return []column{
		{"CALLS", false, func(s usage.Spending) string { return terminal.Figure(int64(s.Calls)) }},
		part("INPUT", false, func(u cost.Usage) int64 { return u.InputTokens }),
		part("OUTPUT", false, func(u cost.Usage) int64 { return u.OutputTokens }),
		part("CACHE READ", true, func(u cost.Usage) int64 { return u.CacheReadTokens }),
		part("CACHE WRITE", true, func(u cost.Usage) int64 { return u.CacheWriteTokens }),
		part("REASONING", true, func(u cost.Usage) int64 { return u.ReasoningTokens }),
		{"TOKENS", false, func(s usage.Spending) string { return terminal.Figure(s.Tokens) }},
		{"USD", false, func(s usage.Spending) string { return terminal.Dollars(s.Usage.CostUSD) }},
		{"UNSETTLED", true, func(s usage.Spending) string {
			return callsNote(s.Unsettled.Calls, "about ", s.Unsettled.Usage.Amount())
		}},
		{"RESERVED", true, func(s usage.Spending) string { return callsNote(s.Reserved.Calls, "", s.Reserved.Amount) }},
	}
}

// callsNote is a text on unsettled or reserved calls.
func callsNote(calls int, about string, a cost.Amount) string {
	if calls == 0 {
		return "-"
	}
	return textfmt.Count(calls, "call") + ": " + about + terminal.Amount(a)
}

// write prints costs for people.
func (c *usageCommand) write() {
	if len(c.doc.Rows) == 0 {
		c.printErr("no costs")
	} else {
		c.table().Write(c.stdout)
	}
	if len(c.doc.Budgets) > 0 {
		c.print("")
		budgetTable(c.palette, c.doc.Budgets).Write(c.stdout)
	}
	if c.doc.Session != "" && c.doc.Total.Unsettled.Calls > 0 {
		c.print("\n%s with unknown cost; see `maestro budget show %s`", textfmt.Count(c.doc.Total.Unsettled.Calls, "call"), c.doc.Session)
	}
}

func (c *usageCommand) table() *terminal.Table {
	columns := slices.DeleteFunc(costColumns(), func(col column) bool { return col.optional && col.text(c.doc.Total) == "-" })
	var heads []string
	for _, key := range c.doc.By {
		heads = append(heads, strings.ToUpper(key))
	}
	for _, col := range columns {
		heads = append(heads, col.head)
	}
	t := c.console.table(heads...)
	for _, row := range c.doc.Rows {
		var cells []any
		for _, key := range c.doc.By {
			cells = append(cells, terminal.Dash(safetext.Line(*row.Key(key))))
		}
		for _, col := range columns {
			cells = append(cells, col.text(row.Spending))
		}
		t.Add(cells...)
	}
	total := make([]any, len(c.doc.By))
	for i := range total {
		total[i] = ""
	}
	total[0] = terminal.Painted("total", terminal.Bold)
	for _, col := range columns {
		total = append(total, terminal.Painted(col.text(c.doc.Total), terminal.Bold))
	}
	t.Add(total...)
	return t
}
