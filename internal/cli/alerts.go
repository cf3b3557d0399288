package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/terminal"
)

// alertsCommand is `alerts`.
type alertsCommand struct {
	*console
	*connector
}

func newAlerts(a *app) *cobra.Command {
	c := alertsCommand{a.console, a.connector}
	cmd := &cobra.Command{
		Use:   "alerts",
		Short: "List the alerts of the last 24 hours that the rules of teams have raised",
		Args:  cmdline.Arguments(0, 0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	a.addStoreFlags(cmd)
	return cmd
}

func (c alertsCommand) run(ctx context.Context) error {
	base, err := c.storeBase()
	if err != nil {
		return err
	}
	doc, err := control.Alerts{Base: base}.List(ctx)
	if err != nil {
		return err
	}
	return c.result(doc, func() {
		if len(doc.Alerts) == 0 {
			c.printErr("no alerts in the last 24 hours")
			return
		}
		alerts := c.table("RAISED", "SESSION", "RULE", "ALERT")
		for _, a := range doc.Alerts {
			alerts.Add(terminal.Plain(terminal.Moment(&a.At)), terminal.Plain(a.Session), terminal.Plain(a.Rule), terminal.Plain(a.Message))
		}
		c.writeFitted(alerts, "RULE", "RAISED")
	})
}
