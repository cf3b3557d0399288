package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/workerpool"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// agentsCommand is `agents`.
type agentsCommand struct {
	*console
	*connector
	team string // a file, or the name of a registered team
}

func newAgents(a *app) *cobra.Command {
	c := agentsCommand{console: a.console, connector: a.connector}
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "Show the agents of live workers and, with --team, what a team is missing",
		Long: "Show the store's live workers: their agents with breakers, their checks, what they notify, and who polls each task queue. With --team, show what " +
			"is missing for a team and how to fix it. If Temporal cannot be reached, the workers' last records in the store are shown. " +
			"The exit code is 1 if something is missing.",
		Example: "  maestro agents\n  maestro agents --team team.yaml",
		Args:    cmdline.Arguments(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&c.team, "team", "", "team file, or registered team, to check the workers against")
	a.addSessionFlags(cmd)
	return cmd
}

func (c *agentsCommand) run(ctx context.Context) error {
	var t spec.Team
	var err error
	if c.team != "" {
		if t, err = c.teamNamed(ctx, c.team); err != nil {
			return err
		}
	}
	s, err := c.openStore()
	if err != nil {
		return err
	}
	conn, err := c.dialToLook(ctx, "showing the workers' last records in the store; pollers are unknown")
	if err != nil {
		return err
	}
	if conn != nil {
		defer conn.Close()
	}
	doc, err := workerpool.Look(ctx, s, conn, t, c.now())
	if err != nil {
		return err
	}
	if err := c.result(doc, func() { c.write(doc) }); err != nil {
		return err
	}
	if len(doc.Missing) > 0 {
		return failf("sessions cannot run: see what is missing above")
	}
	return nil
}

func (c *agentsCommand) write(doc workerpool.Roster) {
	if len(doc.Workers) > 0 {
		c.writeOffers(doc)
		c.print("")
	}
	if len(doc.Queues) > 0 && len(doc.Workers) > 0 {
		t := c.table("QUEUE", "FOR", "POLLERS")
		for _, q := range doc.Queues {
			by := terminal.Painted(strings.Join(q.Pollers, ", "), "")
			if len(q.Pollers) == 0 {
				by = terminal.Painted("none", terminal.Red)
			}
			t.Add(q.Queue, q.For, by)
		}
		t.Write(c.stdout)
		c.print("")
	}
	for _, l := range doc.Missing {
		c.print("%s %s\n  -> %s", c.palette.Paint(terminal.Red, "missing:"), l.Message, l.Remedy)
	}
	if len(doc.Missing) == 0 && doc.Team != "" {
		c.print("nothing is missing for team %s", doc.Team)
	}
}

// writeOffers prints the workers and their agents.
func (c *agentsCommand) writeOffers(doc workerpool.Roster) {
	workers := c.table("WORKER", "HOST", "PID", "VERSION", "SINCE", "ISOLATION", "CHECKS", "NOTIFIES")
	agents := c.table("AGENT", "WORKER", "KIND", "MODEL", "CONCURRENCY", "BREAKER", "STATE", "FALLBACK", "GATEWAY", "NETWORK")
	for _, w := range doc.Workers {
		var notifies []string
		if w.Jira {
			notifies = append(notifies, "Jira")
		}
		if w.Webhook {
			notifies = append(notifies, "webhook")
		}
		workers.Add(w.Worker, w.Host, w.PID, terminal.Dash(w.Version), terminal.Moment(&w.Since), isolation(w.Isolation),
			terminal.Dash(strings.Join(w.Checks, ", ")), terminal.Dash(strings.Join(notifies, ", ")))
		for _, o := range w.Agents {
			agents.Add(o.Agent, w.Worker, o.Kind, terminal.Dash(o.Model), o.Concurrency,
				terminal.Dash(o.Breaker), terminal.Painted(terminal.Dash(string(o.State)), breakerColour(o.State)), terminal.Dash(o.Fallback),
				terminal.Dash(strings.Join(o.Gateway, ", ")), terminal.Dash(strings.Join(o.Network, ", ")))
		}
	}
	workers.Write(c.stdout)
	for _, w := range doc.Workers {
		if why := w.Isolation.WithoutRooms; why != "" {
			c.print("%s %s works without rooms: %s", c.palette.Paint(terminal.Yellow, "warning:"), w.Worker, why)
		}
		if why := w.Isolation.WithoutLayers; why != "" {
			c.print("%s %s copies trees: %s", c.palette.Paint(terminal.Yellow, "warning:"), w.Worker, why)
		}
	}
	c.print("")
	agents.Write(c.stdout)
}

// isolation is a cell of the table of workers.
func isolation(i spec.Isolation) terminal.Cell {
	if !i.Rooms {
		return terminal.Painted(i.String(), terminal.Yellow)
	}
	return terminal.Painted(i.String(), "")
}
