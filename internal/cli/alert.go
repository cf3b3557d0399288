package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/terminal"
)

// alertCommand is the commands on the alert rules of the store.
type alertCommand struct {
	*console
	*connector
}

func newAlert(a *app) *cobra.Command {
	c := alertCommand{a.console, a.connector}
	return group("alert", "List alerts, and add and remove alert rules of the store", c.newAdd(a), c.newList(a), c.newRemove(a))
}

func (c alertCommand) newAdd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add RULE",
		Short: "Add an alert rule to those of the store",
		Long: "Add an alert rule to those of the store. day_cost_usd=AMOUNT raises an alert when the sessions of the Temporal namespace have cost so much on a day, by UTC; " +
			"breaker_open=NAME, or any, when a breaker opens. `maestro serve` evaluates the rules, and the webhook gets the alerts. Rules of a team are in its team file.",
		Example: "  maestro alert add day_cost_usd=100\n  maestro alert add breaker_open=any",
		Args:    cmdline.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.change(cmd.Context(), args[0], "alert rule %s is there", control.Alerts.Add)
		},
	}
	a.addStoreFlags(cmd)
	return cmd
}

func (c alertCommand) newRemove(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove RULE",
		Short: "Remove an alert rule from those of the store",
		Args:  cmdline.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.change(cmd.Context(), args[0], "alert rule %s is removed", control.Alerts.Remove)
		},
	}
	a.addStoreFlags(cmd)
	return cmd
}

func (c alertCommand) newList(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the alert rules of the store, and the alerts of the last 24 hours",
		Args:  cmdline.Arguments(0, 0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.list(cmd.Context()) },
	}
	a.addStoreFlags(cmd)
	return cmd
}

// change adds or removes a rule, and says so.
func (c alertCommand) change(ctx context.Context, rule, said string, change func(control.Alerts, context.Context, string) (control.AlertRule, error)) error {
	base, err := c.storeBase(c.openStoreToWrite)
	if err != nil {
		return err
	}
	doc, err := change(control.Alerts{Base: base}, ctx, rule)
	if err != nil {
		return err
	}
	return c.result(doc, func() { c.print(said, doc.Rule) })
}

func (c alertCommand) list(ctx context.Context) error {
	base, err := c.storeBase(c.openStore)
	if err != nil {
		return err
	}
	doc, err := control.Alerts{Base: base}.List(ctx)
	if err != nil {
		return err
	}
	return c.result(doc, func() {
		if len(doc.Rules) == 0 {
			c.printErr("the store has no alert rules; `%s` adds one", c.commandLine("alert add breaker_open=any"))
		} else {
			rules := c.table("RULE", "BY", "ADDED")
			for _, r := range doc.Rules {
				rules.Add(terminal.Plain(r.Rule), terminal.Plain(terminal.Dash(r.By)), terminal.Plain(terminal.Moment(&r.At)))
			}
			c.writeFitted(rules)
			for _, r := range doc.Rules {
				if r.Fault != "" {
					c.printErr("rule %s is not evaluated: %s", safetext.Line(r.Rule), safetext.Line(r.Fault))
				}
			}
		}
		if len(doc.Alerts) == 0 {
			c.printErr("no alerts in the last 24 hours")
			return
		}
		c.print("")
		alerts := c.table("RAISED", "SESSION", "RULE", "ALERT")
		for _, a := range doc.Alerts {
			alerts.Add(terminal.Plain(terminal.Moment(&a.At)), terminal.Plain(terminal.Dash(a.Session)), terminal.Plain(a.Rule), terminal.Plain(a.Message))
		}
		c.writeFitted(alerts, "RULE", "RAISED")
	})
}
