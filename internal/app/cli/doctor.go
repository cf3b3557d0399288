package cli

import (
	"cmp"
	"context"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/app/doctor"
	"github.com/maestro-hive/maestro/internal/app/localdev"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// doctorDocument is the document of `doctor -o json`.
type doctorDocument struct {
	// OK: no finding is bad.
	OK       bool              `json:"ok"`
	Findings []control.Finding `json:"findings"`
}

// doctorCommand is `doctor`.
type doctorCommand struct {
	*console
	*connector
	env    Env
	agents string
}

func newDoctor(a *app) *cobra.Command {
	c := doctorCommand{console: a.console, connector: a.connector, env: a.env}
	cmd := &cobra.Command{
		Use:   "doctor [TEAM]",
		Short: "Check everything that a session needs, with a remedy for each finding",
		Long: "Check everything that a session needs: Temporal and its namespace, the store, the workers, the pollers of task queues, breakers; with --agents " +
			"or MAESTRO_AGENTS also what a worker file needs on this machine, with one call of its Jira, and with TEAM what a team needs from the workers. Each finding has a remedy. " +
			"If Temporal does not answer, everything else is checked. The exit code is 1 if a check failed, and 0 if there are only warnings.\n\n" +
			"Nothing is changed: temporary files in the store are removed again.",
		Example: "  maestro doctor\n  maestro doctor team.yaml --agents agents.yaml",
		Args:    cmdline.Arguments(0, 1),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), strings.Join(args, "")) },
	}
	cmd.Flags().StringVar(&c.agents, "agents", "", "worker file to check (default: MAESTRO_AGENTS)")
	a.addSessionFlags(cmd)
	return cmd
}

func (c *doctorCommand) run(ctx context.Context, team string) error {
	found, err := c.examine(ctx, team)
	if err != nil {
		return err
	}
	doc := doctorDocument{OK: true, Findings: found}
	for _, f := range found {
		doc.OK = doc.OK && f.Result != doctor.Bad
	}
	if err := c.result(doc, func() { c.write(doc) }); err != nil {
		return err
	}
	if !doc.OK {
		return failf("sessions cannot run: see the findings above")
	}
	return nil
}

// examine checks everything that a session needs, and what the team needs if one is named.
func (c *doctorCommand) examine(ctx context.Context, team string) ([]control.Finding, error) {
	_ = c.stateDirectory() // root continues as its owner
	var t spec.Team
	if team != "" {
		var err error
		if t, err = c.teamNamed(ctx, team); err != nil {
			return nil, err
		}
	}
	server, err := localdev.FindServer(c.env.Executable)
	if err != nil {
		server = "" // which is a finding
	}
	return doctor.Examine(ctx, doctor.Options{
		StateDir: c.stateDir, Agents: cmp.Or(c.agents, c.environ.get("MAESTRO_AGENTS")), Server: server,
		Team: t, Dial: c.dial, Again: c.commandLine, Environ: c.environ, Getenv: c.environ.get,
		Now: c.env.Now, Container: room.InContainer(),
	})
}

const (
	// resultWidth and checkWidth are those of the first columns; a longer name of a
	// check has a line for itself.
	resultWidth = len(doctor.Warning) + 2
	checkWidth  = 19
)

// write prints findings for people.
func (c *doctorCommand) write(doc doctorDocument) {
	const margin = resultWidth + checkWidth
	for _, f := range doc.Findings {
		colour := map[string]terminal.Colour{doctor.OK: terminal.Green, doctor.Warning: terminal.Yellow, doctor.Bad: terminal.Red}[f.Result]
		head := c.palette.Paint(colour, f.Result) + strings.Repeat(" ", resultWidth-len(f.Result)) + f.Check
		gap := checkWidth - utf8.RuneCountInString(f.Check)
		if gap < 2 {
			c.print("%s", head)
			head, gap = "", margin
		}
		c.hang(head+strings.Repeat(" ", gap), margin, f.Message)
		if f.Remedy != "" {
			c.hang(strings.Repeat(" ", margin)+"-> ", margin+len("-> "), f.Remedy)
		}
		if f.Command != "" {
			c.print("%*s$ %s", resultWidth, "", f.Command)
		}
	}
}
