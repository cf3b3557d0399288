package cli

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// column is a column of costs in a table.
type column struct {
	head string
	// optional: it is left out where it is empty in all rows.
	optional bool
	text     func(s spending) string
}

func costColumns() []column {
	part := func(head string, optional bool, of func(cost.Usage) int64) column {
		return column{head, optional, func(s spending) string { return terminal.Figure(of(s.Usage)) }}
	}
	return []column{
		{"CALLS", false, func(s spending) string { return terminal.Figure(int64(s.Calls)) }},
		part("INPUT", false, func(u cost.Usage) int64 { return u.InputTokens }),
		part("OUTPUT", false, func(u cost.Usage) int64 { return u.OutputTokens }),
		part("CACHE READ", true, func(u cost.Usage) int64 { return u.CacheReadTokens }),
		part("CACHE WRITE", true, func(u cost.Usage) int64 { return u.CacheWriteTokens }),
		part("REASONING", true, func(u cost.Usage) int64 { return u.ReasoningTokens }),
		{"TOKENS", false, func(s spending) string { return terminal.Figure(s.Tokens) }},
		{"USD", false, func(s spending) string { return terminal.Dollars(s.Usage.CostUSD) }},
		{"UNSETTLED", true, func(s spending) string { return callsNote(s.Unsettled.Calls, "about ", s.Unsettled.Usage.Amount()) }},
		{"RESERVED", true, func(s spending) string { return callsNote(s.Reserved.Calls, "", s.Reserved.Amount) }},
	}
}

// callsNote is a text on unsettled or reserved calls.
func callsNote(calls int, about string, a cost.Amount) string {
	if calls == 0 {
		return "-"
	}
	return textfmt.Count(calls, "call") + ": " + about + terminal.Amount(a)
}

// writeUsage prints costs for people.
func (a *app) writeUsage(doc usageDocument) {
	if len(doc.Rows) == 0 {
		a.printErr("no costs")
	} else {
		a.costTable(doc).Write(a.stdout)
	}
	if len(doc.Budgets) > 0 {
		a.print("")
		budgetTable(a.palette, doc.Budgets).Write(a.stdout)
	}
	if doc.Session != "" && doc.Total.Unsettled.Calls > 0 {
		a.print("\n%s with unknown cost; see `maestro budget show %s`", textfmt.Count(doc.Total.Unsettled.Calls, "call"), doc.Session)
	}
}

func (a *app) costTable(doc usageDocument) *terminal.Table {
	columns := slices.DeleteFunc(costColumns(), func(c column) bool { return c.optional && c.text(doc.Total) == "-" })
	t := terminal.NewTable(a.palette)
	var heads []string
	for _, key := range doc.By {
		heads = append(heads, strings.ToUpper(key))
	}
	for _, c := range columns {
		heads = append(heads, c.head)
	}
	t.Head(heads...)
	for _, row := range doc.Rows {
		var cells []terminal.Cell
		for _, key := range doc.By {
			cells = append(cells, terminal.Plain(terminal.Dash(safetext.Line(*row.key(key)))))
		}
		for _, c := range columns {
			cells = append(cells, terminal.Plain(c.text(row.spending)))
		}
		t.Add(cells...)
	}
	cells := make([]terminal.Cell, len(doc.By))
	cells[0] = terminal.Painted("total", terminal.Bold)
	for _, c := range columns {
		cells = append(cells, terminal.Painted(c.text(doc.Total), terminal.Bold))
	}
	t.Add(cells...)
	return t
}

// writeUsageCSV prints costs for spreadsheets: a row for each sum, without a total.
func (a *app) writeUsageCSV(doc usageDocument) error {
	w := csv.NewWriter(a.stdout)
	head := slices.Concat(doc.By, []string{
		"calls", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "tokens", "cost_usd",
		"unsettled_calls", "unsettled_tokens", "unsettled_usd", "reserved_calls", "reserved_tokens", "reserved_usd",
	})
	if err := w.Write(head); err != nil {
		return err
	}
	for _, row := range doc.Rows {
		var record []string
		for _, key := range doc.By {
			record = append(record, *row.key(key))
		}
		if err := w.Write(append(record, row.csv()...)); err != nil {
			return fmt.Errorf("write the table: %w", err)
		}
	}
	w.Flush()
	return w.Error()
}
