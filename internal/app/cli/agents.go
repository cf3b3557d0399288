package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/workerpool"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

func newAgents(a *app) *cobra.Command {
	var team string
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "Show the agents of live workers and, with --team, what a team is missing",
		Long: "Show the store's live workers: their agents with breakers, their checks, what they notify, and who polls each task " +
			"queue. With --team, show what " +
			"is missing for a team and how to fix it. If Temporal cannot be reached, the workers' last records in the store are shown. " +
			"The exit code is 1 if something is missing.",
		Example: "  maestro agents\n  maestro agents --team team.yaml",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.agents(cmd.Context(), team) },
	}
	cmd.Flags().StringVar(&team, "team", "", "team file, or registered team, to check the workers against")
	return a.addSessionFlags(cmd)
}

func (a *app) agents(ctx context.Context, team string) error {
	t, err := a.teamNamed(ctx, team)
	if err != nil {
		return err
	}
	base, done, err := a.lookBase(a.openStore, "showing the workers' last records in the store; pollers are unknown")(ctx)
	if err != nil {
		return err
	}
	defer done()
	doc, err := workerpool.Look(ctx, base.Store, base.Temporal(), t, a.now())
	if err != nil {
		return err
	}
	if err := a.result(doc, func() { a.writeRoster(doc) }); err != nil {
		return err
	}
	if len(doc.Missing) > 0 {
		return failf("sessions cannot run: see what is missing above")
	}
	return nil
}

func (a *app) writeRoster(doc workerpool.Roster) {
	if len(doc.Workers) > 0 {
		a.writeOffers(doc)
		a.print("")
	}
	if len(doc.Queues) > 0 && len(doc.Workers) > 0 {
		t := a.table("QUEUE", "FOR", "POLLERS")
		for _, q := range doc.Queues {
			by := terminal.Painted(strings.Join(q.Pollers, ", "), "")
			if len(q.Pollers) == 0 {
				by = terminal.Painted("none", terminal.Red)
			}
			t.Add(q.Queue, q.For, by)
		}
		t.Write(a.stdout)
		a.print("")
	}
	for _, l := range doc.Missing {
		a.print("%s %s\n  -> %s", a.palette.Paint(terminal.Red, "missing:"), l.Message, l.Remedy)
	}
	if len(doc.Missing) == 0 && doc.Team != "" {
		a.print("nothing is missing for team %s", doc.Team)
	}
}

// writeOffers prints the workers and their agents.
func (a *app) writeOffers(doc workerpool.Roster) {
	workers := a.table("WORKER", "HOST", "PID", "VERSION", "SINCE", "ISOLATION", "USER", "FREE", "CHECKS", "NOTIFIES")
	agents := a.table("AGENT", "WORKER", "KIND", "MODEL", "CONCURRENCY", "BREAKER", "STATE", "FALLBACK", "GATEWAY", "NETWORK")
	for _, w := range doc.Workers {
		var notifies []string
		if w.Jira {
			notifies = append(notifies, "Jira")
		}
		if w.Webhook {
			notifies = append(notifies, "webhook")
		}
		workers.Add(w.Worker, w.Host, w.PID, terminal.Dash(w.Version), terminal.Moment(&w.Since), isolation(w.Isolation),
			w.Isolation.User, free(w.Disk), terminal.Dash(strings.Join(w.Checks, ", ")), terminal.Dash(strings.Join(notifies, ", ")))
		for _, o := range w.Agents {
			agents.Add(o.Agent, w.Worker, o.Kind, terminal.Dash(o.Model), o.Concurrency,
				terminal.Dash(o.Breaker), terminal.Painted(terminal.Dash(string(o.State)), breakerColour(o.State)), terminal.Dash(o.Fallback),
				terminal.Dash(strings.Join(o.Gateway, ", ")), terminal.Dash(strings.Join(o.Network, ", ")))
		}
	}
	workers.Write(a.stdout)
	warning := a.palette.Paint(terminal.Yellow, "warning:")
	for _, w := range doc.Workers {
		if why := w.Isolation.WithoutRooms; why != "" {
			a.print("%s %s works without rooms: %s", warning, w.Worker, why)
		}
		if why := w.Isolation.WithoutLayers; why != "" {
			a.print("%s %s copies trees: %s", warning, w.Worker, why)
		}
	}
	a.print("")
	agents.Write(a.stdout)
}

// free is a cell of the table of workers: the free space on the disk of its host.
func free(d spec.Disk) terminal.Cell {
	if d.Full {
		return terminal.Painted(textfmt.Size(d.FreeBytes)+", full", terminal.Red)
	}
	return terminal.Painted(textfmt.Size(d.FreeBytes), "")
}

// isolation is a cell of the table of workers.
func isolation(i spec.Isolation) terminal.Cell {
	if !i.Rooms {
		return terminal.Painted(i.String(), terminal.Yellow)
	}
	return terminal.Painted(i.String(), "")
}
