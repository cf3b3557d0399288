package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
	"github.com/maestro-hive/maestro/internal/store/state"
)

func newBudget(a *app) *cobra.Command {
	return group("budget", "Show and raise budgets, and settle calls with unknown cost",
		newBudgetShow(a), newBudgetRaise(a), newBudgetSettle(a))
}

// budgetShow is `budget show`.
type budgetShow struct {
	*console
	*connector
	team string
}

func newBudgetShow(a *app) *cobra.Command {
	c := budgetShow{console: a.console, connector: a.connector}
	cmd := &cobra.Command{
		Use:   "show (SESSION | --team TEAM)",
		Short: "Show a session's budgets and its calls with unknown cost, or a team's daily budget",
		Long: "Show a session's budgets, what is left of them, and the calls with unknown cost. " +
			"With --team, show the team's daily budget (UTC) over all its sessions in the store. This needs neither a worker nor Temporal.",
		Args: sessionOrTeam(&c.team),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.team != "" {
				return c.day(cmd.Context())
			}
			return c.session(cmd.Context(), args[0])
		},
	}
	cmd.Flags().StringVar(&c.team, "team", "", "show the daily budget of this team")
	a.addServedFlags(cmd)
	return cmd
}

// budgetTable has a row for each dimension that a budget limits.
func budgetTable(p terminal.Palette, lines []control.Budget) *terminal.Table {
	t := terminal.NewTable(p, "BUDGET", "LIMIT", "SPENT", "UNSETTLED", "RESERVED", "LEFT")
	for _, b := range lines {
		if left := b.Left.Tokens; left != nil {
			t.Add(b.Scope, terminal.Number(b.Cap.Tokens)+" tokens", terminal.Figure(b.Spent.Tokens), terminal.Figure(b.Unsettled.Tokens),
				terminal.Figure(b.Reserved.Tokens), terminal.Painted(terminal.Number(*left), leftColour(*left)))
		}
		if left := b.Left.USD; left != nil {
			t.Add(b.Scope, b.Cap.USD.String()+" USD", terminal.Dollars(b.Spent.USD), terminal.Dollars(b.Unsettled.USD),
				terminal.Dollars(b.Reserved.USD), terminal.Painted(left.Rounded().String(), leftColour(int64(*left))))
		}
	}
	return t
}

func leftColour(left int64) terminal.Colour {
	if left == 0 {
		return terminal.Red
	}
	return ""
}

func (c *budgetShow) session(ctx context.Context, sessionID string) error {
	p, err := c.reading(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	doc, err := invoke(ctx, p, httpapi.ListBudgets, httpapi.OfSession{Session: sessionID})
	if err != nil {
		return c.explainIn(ctx, p, err)
	}
	return c.result(doc, func() { c.write(doc) })
}

func (c *budgetShow) write(doc control.Budgets) {
	if len(doc.Budgets) == 0 {
		c.print("session %s has no budget", doc.Session)
	} else {
		budgetTable(c.palette, doc.Budgets).Write(c.stdout)
	}
	printHistory(c.console, doc.Raises, doc.Warnings)
	if len(doc.Open) == 0 {
		return
	}
	t := c.table("ASSIGNMENT", "CALL", "STATE", "AGENT", "BEGAN", "ESTIMATE")
	unsettled := false
	for _, call := range doc.Open {
		unsettled = unsettled || call.State == state.CallUnsettled
		t.Add(call.String(), call.Call, callState(call.State), terminal.Dash(safetext.Line(call.Agent)),
			terminal.Moment(&call.BeganAt), terminal.Amount(call.Estimate))
	}
	c.print("")
	t.Write(c.stdout)
	if unsettled {
		c.printErr("settle a call when you know its cost: maestro budget settle %s CALL --output-tokens N --cost-usd X, or --write-off; use --all instead of CALL to settle all", doc.Session)
	}
}

// callState is a call's state in words.
func callState(k state.CallState) string {
	if k == state.CallBegun {
		return "in flight"
	}
	return string(k)
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + safetext.Line(who)
}

// printHistory prints raises of budgets and warnings.
func printHistory(c *console, raises []budget.Raise, warnings []budget.Warning) {
	for _, r := range raises {
		c.print("%s raised by %s%s, %s%s", r.Scope, terminal.Amount(r.Added), by(r.By), terminal.Moment(&r.When), reason(r.Note))
	}
	for _, w := range warnings {
		c.print("%s", c.palette.Paint(terminal.Yellow, fmt.Sprintf("%s reached %g%% (%s) %s", w.Scope, 100*w.At, terminal.Amount(w.Spent), terminal.Moment(&w.When))))
	}
}
