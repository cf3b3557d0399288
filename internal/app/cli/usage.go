package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// usageDocument is the document of `usage -o json`.
type usageDocument struct {
	// Session is the requested one; empty: all.
	Session string `json:"session,omitempty"`
	// Since is the first day that counts, by UTC; empty: all do.
	Since string `json:"since,omitempty"`
	// By are the rows' keys.
	By []string `json:"by"`
	control.Usage
}

// usageCommand is `usage`.
type usageCommand struct {
	*app
	doc usageDocument
	// labels select sessions.
	labels []string
}

func newUsage(a *app) *cobra.Command {
	c := usageCommand{app: a}
	var since, by string
	cmd := &cobra.Command{
		Use:   "usage [SESSION]",
		Short: "Show what sessions have cost",
		Long: "Show the cost of a session by phase and persona, or of all sessions of the store, newest first. " +
			"A call counts on the UTC day on which its cost became known. UNSETTLED is an estimate and not part of other columns.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.doc.Session = strings.Join(args, "")
			if err := c.check(since, by); err != nil {
				return err
			}
			return c.run(cmd.Context())
		},
	}
	cmd.Flags().StringArrayVar(&c.labels, "label", nil, "only sessions with this label, KEY=VALUE; may be given several times")
	cmd.Flags().StringVar(&since, "since", "", "count only costs since the day of this date, like 2026-11-21, or this long ago, "+
		"like 7d or 12h (default: all)")
	cmd.Flags().StringVar(&by, "by", "", "group by one or more of "+strings.Join(state.CostKeys, ", ")+
		" (default: phase,persona of a session, session,team of all)")
	_ = cmd.RegisterFlagCompletionFunc("by", listOf(func(context.Context, []string) []string { return state.CostKeys }))
	return a.addServedFlags(cmd, outputCSV)
}

// check reads the flags.
func (c *usageCommand) check(since, by string) (err error) {
	if c.doc.By, err = parseBy(by, c.doc.Session != ""); err != nil {
		return err
	}
	start, err := parseStart(since, c.now())
	if err != nil {
		return err
	}
	if !start.IsZero() {
		c.doc.Since = budget.Date(start)
	}
	if _, err := control.ParseLabels(c.labels); err != nil {
		return inputError(err)
	}
	if c.doc.Session != "" && len(c.labels) > 0 {
		return usagef("--label selects among all sessions; leave SESSION or --label out")
	}
	return nil
}

// parseBy reads --by.
func parseBy(by string, sess bool) ([]string, error) {
	switch {
	case by == "" && sess:
		return []string{"phase", "persona"}, nil
	case by == "":
		return []string{"session", "team"}, nil
	}
	var keys []string
	for key := range strings.SplitSeq(by, ",") {
		key = strings.TrimSpace(key)
		if !slices.Contains(state.CostKeys, key) || slices.Contains(keys, key) {
			return nil, usagef("--by: %q is not a list of distinct fields; use one or more of %s, separated by commas",
				textfmt.Shorten(by, 80), strings.Join(state.CostKeys, ", "))
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// run sums up the costs of the session, or of all sessions of the store, and prints them.
func (c *usageCommand) run(ctx context.Context) (err error) {
	at := c.served(c.storeBase)
	if c.doc.Session == "" {
		in := control.UsageFilter{HistoryFilter: control.HistoryFilter{By: c.doc.By, Labels: c.labels}, From: c.doc.Since}
		c.doc.Usage, err = ask(ctx, c.connector, at, httpapi.ReadUsage, in)
	} else {
		in := control.SessionUsageFilter{Session: c.doc.Session, By: c.doc.By, From: c.doc.Since}
		c.doc.Usage, err = ask(ctx, c.connector, at, httpapi.ReadSessionUsage, in)
	}
	switch {
	case err != nil:
		return err
	case c.output == outputCSV:
		c.doc.Usage.By = c.doc.By // a server does not send it
		return c.doc.WriteCSV(c.stdout)
	}
	return c.result(c.doc, c.write)
}

// column is a column of costs in a table.
type column struct {
	head string
	// optional: it is left out where it is empty in all rows.
	optional bool
	text     func(s state.Spending) string
}

func costColumns() []column {
	part := func(head string, optional bool, of func(cost.Usage) int64) column {
		return column{head, optional, func(s state.Spending) string { return terminal.Figure(of(s.Usage)) }}
	}
	return []column{
		{"CALLS", false, func(s state.Spending) string { return terminal.Figure(int64(s.Calls)) }},
		part("INPUT", false, func(u cost.Usage) int64 { return u.InputTokens }),
		part("OUTPUT", false, func(u cost.Usage) int64 { return u.OutputTokens }),
		part("CACHE READ", true, func(u cost.Usage) int64 { return u.CacheReadTokens }),
		part("CACHE WRITE", true, func(u cost.Usage) int64 { return u.CacheWriteTokens }),
		part("REASONING", true, func(u cost.Usage) int64 { return u.ReasoningTokens }),
		{"TOKENS", false, func(s state.Spending) string { return terminal.Figure(s.Tokens) }},
		{"USD", false, func(s state.Spending) string { return terminal.Dollars(s.Usage.CostUSD) }},
		{"UNSETTLED", true, func(s state.Spending) string {
			return callsNote(s.Unsettled.Calls, "about ", s.Unsettled.Amount)
		}},
		{"RESERVED", true, func(s state.Spending) string { return callsNote(s.Reserved.Calls, "", s.Reserved.Amount) }},
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
		c.print("\n%s with unknown cost; see `maestro budget show %s`", textfmt.Count(c.doc.Total.Unsettled.Calls, "call"),
			c.doc.Session)
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
