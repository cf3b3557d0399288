package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
	"github.com/maestro-hive/maestro/internal/store/state"
)

func newBudget(a *app) *cobra.Command {
	return group("budget", "Show and raise budgets, and settle calls with unknown cost",
		newBudgetShow(a), newBudgetRaise(a), newBudgetSettle(a))
}

func newBudgetShow(a *app) *cobra.Command {
	var team string
	cmd := &cobra.Command{
		Use:   "show (SESSION | --team TEAM)",
		Short: "Show a session's budgets and its calls with unknown cost, or a team's daily budget",
		Long: "Show a session's budgets, what is left of them, and the calls with unknown cost. " +
			"With --team, show the team's daily budget (UTC) over all its sessions in the store. This needs neither a worker nor " +
			"Temporal.",
		Args: sessionOrTeam(&team),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, at := cmd.Context(), a.served(a.storeBase)
			if team != "" {
				return storeError(report(ctx, a, at, httpapi.ReadDayBudget, httpapi.OfName{Name: team}, a.writeDay))
			}
			return report(ctx, a, at, httpapi.ListBudgets, httpapi.OfSession{Session: args[0]}, a.writeBudgets)
		},
	}
	cmd.Flags().StringVar(&team, "team", "", "show the daily budget of this team")
	return a.addServedFlags(cmd)
}

// sessionOrTeam checks that a command gets a session or, with --team, a team.
func sessionOrTeam(name *string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if *name == "" {
			return cmdline.Arguments(1, 1)(cmd, args)
		}
		if len(args) > 0 {
			return usagef("SESSION and --team exclude each other; leave one out")
		}
		if err := spec.CheckName(*name); err != nil {
			return usagef("--team: %w", err)
		}
		return nil
	}
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

func (a *app) writeBudgets(doc control.Budgets) {
	if len(doc.Budgets) == 0 {
		a.print("session %s has no budget", doc.Session)
	} else {
		budgetTable(a.palette, doc.Budgets).Write(a.stdout)
	}
	a.printHistory(doc.Raises, doc.Warnings)
	if len(doc.Open) == 0 {
		return
	}
	t := a.table("ASSIGNMENT", "CALL", "STATE", "AGENT", "BEGAN", "ESTIMATE")
	unsettled := false
	for _, call := range doc.Open {
		unsettled = unsettled || call.State == state.CallUnsettled
		t.Add(call.String(), call.Call, callState(call.State), terminal.Dash(safetext.Line(call.Agent)),
			terminal.Moment(&call.BeganAt), terminal.Amount(call.Estimate))
	}
	a.print("")
	t.Write(a.stdout)
	if unsettled {
		a.printErr("settle a call when you know its cost: maestro budget settle %s CALL --output-tokens N --cost-usd X, or "+
			"--write-off; use --all instead of CALL to settle all", doc.Session)
	}
}

func (a *app) writeDay(day control.Day) {
	a.print("team %s on %s (UTC), %s", safetext.Line(day.Team), day.Date, textfmt.Count(len(day.Sessions), "session"))
	budgetTable(a.palette, []control.Budget{day.Budget()}).Write(a.stdout)
	a.printHistory(day.Raises, day.Warnings)
	for _, s := range day.Sessions {
		if s.UnsettledCalls > 0 {
			a.printErr("%s of session %s unsettled, estimated at %s: maestro budget show %[2]s",
				textfmt.Count(s.UnsettledCalls, "call"), s.Session, terminal.Amount(s.Unsettled))
		}
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
func (a *app) printHistory(raises []budget.Raise, warnings []budget.Warning) {
	for _, r := range raises {
		a.print("%s raised by %s%s, %s%s", r.Scope, terminal.Amount(r.Added), by(r.By), terminal.Moment(&r.When), reason(r.Note))
	}
	for _, w := range warnings {
		a.print("%s", a.palette.Paint(terminal.Yellow, fmt.Sprintf("%s reached %g%% (%s) %s", w.Scope, 100*w.At,
			terminal.Amount(w.Spent), terminal.Moment(&w.When))))
	}
}

func newBudgetRaise(a *app) *cobra.Command {
	var r control.Raise
	var usd, team string
	cmd := &cobra.Command{
		Use:   "raise (SESSION | --team TEAM) (--tokens N | --usd X)",
		Short: "Raise a budget of a running session, or a team's daily budget",
		Long: "Raise a budget of a running session: the one that the session waits for or, if it waits for none, the session's own; " +
			"with --persona, --phase or --session, that one. " +
			"A session that waits because the budget is spent continues where it stopped; finished calls are not paid again. " +
			"If no worker answers within " + control.AcceptTimeout.String() + ", the raise is applied as soon as one does.\n\n" +
			"With --team, raise the team's daily budget for today (UTC) only: sessions that wait for the next day continue. This needs " +
			"neither a worker nor Temporal.",
		Args: sessionOrTeam(&team),
		RunE: func(cmd *cobra.Command, args []string) error {
			if usd != "" {
				if err := r.USD.UnmarshalText([]byte(usd)); err != nil {
					return usagef("--usd: %w", err)
				}
			}
			if r.Tokens < 0 || r.USD < 0 || r.Tokens == 0 && r.USD == 0 {
				return usagef("missing --tokens or --usd; give a positive amount to add")
			}
			if team != "" {
				return a.raiseDay(cmd.Context(), team, r)
			}
			return a.raiseBudget(cmd.Context(), args[0], r)
		},
	}
	cmd.Flags().Int64Var(&r.Tokens, "tokens", 0, "tokens to add")
	cmd.Flags().StringVar(&usd, "usd", "", "dollars to add")
	cmd.Flags().StringVar(&r.Persona, "persona", "", "raise this persona's budget")
	cmd.Flags().StringVar(&r.Phase, "phase", "", "raise this phase's budget")
	cmd.Flags().BoolVar(&r.Session, "session", false, "raise the session's own budget")
	cmd.Flags().StringVar(&r.Note, "note", "", "why, for the record")
	cmd.Flags().StringVar(&team, "team", "", "raise the daily budget of this team, for today")
	cmd.MarkFlagsMutuallyExclusive("persona", "phase", "session", "team")
	return a.addServedFlags(cmd)
}

// raiseDay raises a team's daily budget for today. It needs only the store.
func (a *app) raiseDay(ctx context.Context, team string, r control.Raise) error {
	in := httpapi.NameBody[control.DayRaise]{Name: team, Body: control.DayRaise{Tokens: r.Tokens, USD: r.USD, Note: r.Note}}
	day, err := ask(ctx, a.connector, a.served(a.storeBase), httpapi.RaiseDayBudget, in)
	if err != nil {
		return storeError(err)
	}
	a.printErr("daily budget of team %s: %s on %s; the raise ends at %s",
		team, terminal.Cap(day.Limit), day.Date, day.EndsAt.Format("2006-01-02 15:04 UTC"))
	return a.result(day, func() { a.writeDay(day) })
}

func (a *app) raiseBudget(ctx context.Context, sessionID string, r control.Raise) error {
	in := httpapi.SessionBody[control.Raise]{Session: sessionID, Body: r}
	doc, err := ask(ctx, a.connector, a.served(a.temporalBase(a.openStore)), httpapi.RaiseBudget, in)
	ended := control.ProblemOf(err)
	switch {
	case ended.Reason == control.Ended && ended.State == session.Completed:
		return usagef("%w; its budget cannot be raised", err)
	case ended.Reason == control.Ended:
		return usagef("%w; raise the budget in its team file and resume it: %s", err, a.commandLine("resume "+sessionID+" --team FILE"))
	case err != nil:
		return err
	case doc.Raised != nil:
		a.printErr("the budget of %s is now %s, %s spent",
			budget.Label(doc.Raised.Scope), terminal.Cap(doc.Raised.Cap), terminal.AmountIn(doc.Raised.Spent, doc.Raised.Cap))
	default:
		a.printErr("no worker answered within %s; the budget of session %s is raised as soon as one does", control.AcceptTimeout,
			sessionID)
	}
	return a.result(doc, func() {})
}

// settleCommand is `budget settle`.
type settleCommand struct {
	*app
	as   control.Settlement
	used cost.Usage
	cost string

	writeOff, asEstimated bool
	// all is true for every call of the session.
	all bool
}

func newBudgetSettle(a *app) *cobra.Command {
	c := settleCommand{app: a}
	cmd := &cobra.Command{
		Use:   "settle SESSION [CALL]",
		Short: "Record or write off the cost of an unsettled call",
		Long: "Record the cost of a call whose worker died, or whose connection broke, before its cost was known. Until then its " +
			"estimate " +
			"counts against the budgets. `maestro budget show` lists such calls with their ids; look up their cost at the provider.",
		Args: func(cmd *cobra.Command, args []string) error {
			if c.all {
				return cmdline.Arguments(1, 1)(cmd, args)
			}
			return cmdline.Arguments(2, 2)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.check(cmd.Flags().Changed("cost-usd")); err != nil {
				return err
			}
			if c.all {
				return c.settleAll(cmd.Context(), args[0])
			}
			return c.settle(cmd.Context(), args[0], args[1])
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&c.used.InputTokens, "input-tokens", 0, "input tokens not read from the cache")
	flags.Int64Var(&c.used.OutputTokens, "output-tokens", 0, "output tokens, including reasoning")
	flags.Int64Var(&c.used.CacheReadTokens, "cache-read-tokens", 0, "input tokens read from the cache")
	flags.Int64Var(&c.used.CacheWriteTokens, "cache-write-tokens", 0, "input tokens written to the cache")
	flags.Int64Var(&c.used.ReasoningTokens, "reasoning-tokens", 0, "output tokens used for reasoning")
	flags.StringVar(&c.cost, "cost-usd", "", "cost in USD, like 0.25")
	flags.BoolVar(&c.writeOff, "write-off", false, "count it as zero")
	flags.BoolVar(&c.asEstimated, "as-estimated", false, "count it at its estimate")
	flags.BoolVar(&c.all, "all", false, "all unsettled calls of the session, with --write-off or --as-estimated")
	flags.StringVar(&c.as.Note, "note", "", "where the figure comes from")
	cmd.MarkFlagsMutuallyExclusive("write-off", "as-estimated")
	return a.addStoreFlags(cmd)
}

// check reads the cost and rejects contradictions.
func (c *settleCommand) check(priced bool) error {
	if priced {
		if err := c.used.CostUSD.UnmarshalText([]byte(c.cost)); err != nil {
			return usagef("--cost-usd: %w", err)
		}
	}
	given := priced || c.used != cost.Usage{}
	if given {
		c.as.Usage, c.as.Unpriced = &c.used, !priced
	}
	c.as.As = control.SettledByCost
	switch {
	case c.writeOff && given:
		return usagef("--write-off excludes token and cost flags; leave one out")
	case c.asEstimated && given:
		return usagef("--as-estimated excludes token and cost flags; leave one out")
	case c.all && given:
		return usagef("--all needs --write-off or --as-estimated; settle calls with different costs one by one")
	case c.writeOff:
		c.as.As = control.WrittenOff
	case c.asEstimated:
		c.as.As = control.SettledAsEstimated
	case !given:
		return usagef("missing cost; give it, like --input-tokens 1200 --output-tokens 300 --cost-usd 0.01, or --write-off, or " +
			"--as-estimated")
	}
	return inputError(c.as.Check())
}

// settle closes a call by a person's entry.
func (c *settleCommand) settle(ctx context.Context, sessionID, call string) error {
	in := control.SettleInput{Session: sessionID, Call: call, Body: c.as}
	return inputError(report(ctx, c.app, c.here(c.storeBase), httpapi.SettleCall, in, func(doc control.Settled) {
		c.writeSettled(doc)
		if doc.Unsettled > 0 {
			c.print("%s of the session still unsettled; see `maestro budget show %s`", textfmt.Count(doc.Unsettled, "call"), sessionID)
		}
	}))
}

// settleAll closes all calls of a session with unknown cost. Those of an
// assignment that is at work stay.
func (c *settleCommand) settleAll(ctx context.Context, sessionID string) error {
	in := httpapi.SessionBody[control.Settlement]{Session: sessionID, Body: c.as}
	all, err := ask(ctx, c.connector, c.here(c.storeBase), httpapi.SettleCalls, in)
	if err != nil && len(all.Calls)+all.Unsettled == 0 {
		return err
	}
	return errors.Join(err, c.result(all, func() {
		for _, doc := range all.Calls {
			c.writeSettled(doc)
		}
		if err == nil && len(all.Calls) == 0 {
			c.print("session %s has no unsettled call", sessionID)
		}
	}))
}

func (c *settleCommand) writeSettled(doc control.Settled) {
	what := terminal.Amount(doc.Usage.Amount())
	if doc.WrittenOff {
		what = "nothing"
	}
	c.print("call %s of %s in session %s counts as %s; it was estimated at %s", doc.Call, doc.AssignmentID, doc.Session, what,
		terminal.Amount(doc.Estimate))
}
