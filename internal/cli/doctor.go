package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/team"
)

// The results of a check.
const (
	good = "ok"
	// odd is worth knowing and no reason not to start.
	odd = "warning"
	bad = "bad"
)

// doctorDocument is the document of `doctor -o json`.
type doctorDocument struct {
	// OK: no finding is bad.
	OK       bool      `json:"ok"`
	Findings []finding `json:"findings"`
}

// finding is what one check has found.
type finding struct {
	Check string `json:"check"`
	// Result is ok, warning or bad.
	Result  string `json:"result"`
	Message string `json:"message"`
	// Remedy is what to do; empty for ok.
	Remedy string `json:"remedy,omitempty"`
}

func newDoctor(a *app) *cobra.Command {
	var agents string
	var tickets jiraFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check that everything a session needs is there, and say what to do where it is not",
		Args:  arguments(0, 0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), agents, tickets) },
	}
	cmd.Flags().StringVar(&agents, "agents", "", "worker file to check (default: MAESTRO_AGENTS)")
	cmd.Flags().BoolVar(&tickets.on, "jira", false, "check only whether tickets can be made in the Jira of the worker file; none is made")
	cmd.Flags().StringVar(&tickets.team, "team", "", "team file whose help.jira is checked with --jira")
	cmd.Flags().StringVar(&tickets.project, "project", "", "key of the project that is checked with --jira")
	cmd.Flags().StringVar(&tickets.kind, "type", "", "type of the tickets that are checked with --jira (default: "+team.DefaultTicketType+")")
	a.addTemporalFlags(cmd)
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd)
	return cmd
}

func (a *app) doctor(ctx context.Context, agents string, tickets jiraFlags) error {
	if err := tickets.check(); err != nil {
		return err
	}
	d := &examination{app: a}
	if tickets.on {
		if err := d.tickets(ctx, agents, tickets); err != nil {
			return err
		}
	} else {
		d.program()
		d.state(ctx)
		d.temporal(ctx)
		d.workers(ctx)
		d.workerFile(agents)
	}
	doc := doctorDocument{OK: true, Findings: d.findings}
	for _, f := range d.findings {
		if f.Result == bad {
			doc.OK = false
		}
	}
	if a.output == outputJSON {
		if err := a.printJSON(doc); err != nil {
			return err
		}
	} else {
		a.writeFindings(doc)
	}
	if !doc.OK {
		what := "sessions"
		if tickets.on {
			what = "tickets"
		}
		return failf("something is in the way of %s; the findings above say what to do", what)
	}
	return nil
}

func (a *app) writeFindings(doc doctorDocument) {
	t := &table{paint: a.paint}
	for _, f := range doc.Findings {
		colour := green
		switch f.Result {
		case odd:
			colour = yellow
		case bad:
			colour = red
		}
		t.add(cell{f.Result, colour}, plain(f.Check), plain(f.Message))
		if f.Remedy != "" {
			t.add(plain(""), plain(""), plain("-> "+f.Remedy))
		}
	}
	t.write(a.env.Stdout)
}
