package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// settleCommand is `budget settle`.
type settleCommand struct {
	*console
	*connector
	as   control.Settlement
	used cost.Usage
	cost string

	writeOff, asEstimated bool
	// all: of every call of the session.
	all bool
}

func newBudgetSettle(a *app) *cobra.Command {
	c := settleCommand{console: a.console, connector: a.connector}
	cmd := &cobra.Command{
		Use:   "settle SESSION [CALL]",
		Short: "Record or write off the cost of an unsettled call",
		Long: "Record the cost of a call whose worker died, or whose connection broke, before its cost was known. Until then its estimate " +
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
	a.addStoreFlags(cmd)
	return cmd
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
	case c.writeOff && c.asEstimated:
		return usagef("--write-off and --as-estimated exclude each other; leave one out")
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
		return usagef("missing cost; give it, like --input-tokens 1200 --output-tokens 300 --cost-usd 0.01, or --write-off, or --as-estimated")
	}
	return inputError(c.as.Check())
}

// settle closes a call by a person's entry.
func (c *settleCommand) settle(ctx context.Context, sessionID, call string) error {
	base, err := c.storeBase()
	if err != nil {
		return err
	}
	doc, err := control.Money{Base: base}.Settle(ctx, control.SettleInput{Session: sessionID, Call: call, Body: c.as})
	if err != nil {
		return inputError(c.explain(ctx, base, err))
	}
	return c.result(doc, func() {
		c.writeSettled(doc)
		if doc.Unsettled > 0 {
			c.print("%s of the session still unsettled; see `maestro budget show %s`", textfmt.Count(doc.Unsettled, "call"), sessionID)
		}
	})
}

// settleAll closes all calls of a session with unknown cost. Those of an
// assignment that is at work stay.
func (c *settleCommand) settleAll(ctx context.Context, sessionID string) error {
	base, err := c.storeBase()
	if err != nil {
		return err
	}
	all, err := control.Money{Base: base}.SettleAll(ctx, sessionID, c.as)
	if err != nil && len(all.Calls)+all.Unsettled == 0 {
		return c.explain(ctx, base, err)
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
	c.print("call %s of %s in session %s counts as %s; it was estimated at %s", doc.Call, doc.AssignmentID, doc.Session, what, terminal.Amount(doc.Estimate))
}
