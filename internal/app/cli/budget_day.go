package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

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

// day shows a team's daily budget.
func (c *budgetShow) day(ctx context.Context) error {
	p, err := c.reading(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	day, err := invoke(ctx, p, httpapi.ReadDayBudget, httpapi.OfName{Name: c.team})
	if err != nil {
		return storeError(err)
	}
	return printDay(c.console, day)
}

// raiseDay raises a team's daily budget for today. It needs only the store.
func (c *budgetRaise) raiseDay(ctx context.Context, name string, r control.Raise) error {
	p, err := c.reading(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	day, err := invoke(ctx, p, httpapi.RaiseDayBudget, httpapi.NameBody[control.DayRaise]{
		Name: name, Body: control.DayRaise{Tokens: r.Tokens, USD: r.USD, Note: r.Note},
	})
	if err != nil {
		return storeError(err)
	}
	c.printErr("daily budget of team %s: %s on %s; the raise ends at %s", name, terminal.Cap(day.Limit), day.Date, day.EndsAt.Format("2006-01-02 15:04 UTC"))
	return printDay(c.console, day)
}

func printDay(c *console, day control.Day) error {
	return c.result(day, func() {
		c.print("team %s on %s (UTC), %s", safetext.Line(day.Team), day.Date, textfmt.Count(len(day.Sessions), "session"))
		budgetTable(c.palette, []control.Budget{day.Budget()}).Write(c.stdout)
		printHistory(c, day.Raises, day.Warnings)
		for _, s := range day.Sessions {
			if s.UnsettledCalls > 0 {
				c.printErr("%s of session %s unsettled, estimated at %s: maestro budget show %s", textfmt.Count(s.UnsettledCalls, "call"), s.Session, terminal.Amount(s.Unsettled), s.Session)
			}
		}
	})
}
