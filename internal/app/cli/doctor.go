package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/app/doctor"
	"github.com/maestro-hive/maestro/internal/app/localdev"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// doctorDocument is the document of `doctor -o json`.
type doctorDocument struct {
	// OK is true if no finding is bad.
	OK       bool              `json:"ok"`
	Findings []control.Finding `json:"findings"`
}

func newDoctor(a *app) *cobra.Command {
	var agents string
	cmd := &cobra.Command{
		Use:   "doctor [TEAM]",
		Short: "Check everything that a session needs, with a remedy for each finding",
		Long: "Check everything that a session needs: Temporal and its namespace, the store, the workers, the pollers of task " +
			"queues, breakers; with --agents " +
			"or MAESTRO_AGENTS also what a worker file needs on this machine, with one call of its Jira, and with TEAM what a team " +
			"needs from the workers. Each finding has a remedy. " +
			"If Temporal does not answer, everything else is checked. The exit code is 1 if a check failed, and 0 if there are only " +
			"warnings.\n\n" +
			"Nothing is changed: temporary files in the store are removed again.",
		Example: "  maestro doctor\n  maestro doctor team.yaml --agents agents.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.doctor(cmd.Context(), strings.Join(args, ""), cmp.Or(agents, a.environ.get("MAESTRO_AGENTS")))
		},
	}
	cmd.Flags().StringVar(&agents, "agents", "", "worker file to check (default: MAESTRO_AGENTS)")
	return a.addSessionFlags(cmd)
}

// doctor checks everything that a session needs, and what the team needs if one is named.
func (a *app) doctor(ctx context.Context, team, agents string) error {
	_ = a.stateDirectory() // root continues as its owner
	t, err := a.teamNamed(ctx, team)
	if err != nil {
		return err
	}
	server, _ := localdev.FindServer(a.env.Executable) // a missing one is a finding
	o, err := a.storeOptions()
	if err != nil {
		return err
	}
	found, err := doctor.Examine(ctx, doctor.Options{
		StateDir: a.stateDir, Location: o.Location, Agents: agents, Server: server,
		Team: t, Dial: a.dial, Again: a.commandLine, Environ: a.environ, Getenv: a.environ.get,
		Now: a.now, Container: room.InContainer(),
	})
	if err != nil {
		return err
	}
	bad := slices.ContainsFunc(found, func(f control.Finding) bool { return f.Result == doctor.Bad })
	if err := a.result(doctorDocument{!bad, found}, func() { a.writeFindings(found) }); err != nil {
		return err
	}
	if bad {
		return failf("sessions cannot run: see the findings above")
	}
	return nil
}

const (
	// resultWidth and checkWidth are those of the first columns; a longer name of a
	// check has a line for itself.
	resultWidth = len(doctor.Warning) + 2
	checkWidth  = 19
)

// writeFindings prints findings for people.
func (a *app) writeFindings(found []control.Finding) {
	const margin = resultWidth + checkWidth
	for _, f := range found {
		colour := map[string]terminal.Colour{
			doctor.OK: terminal.Green, doctor.Warning: terminal.Yellow,
			doctor.Bad: terminal.Red,
		}[f.Result]
		head := a.palette.Paint(colour, f.Result) + strings.Repeat(" ", resultWidth-len(f.Result)) + f.Check
		gap := checkWidth - utf8.RuneCountInString(f.Check)
		if gap < 2 {
			a.print("%s", head)
			head, gap = "", margin
		}
		a.hang(head+strings.Repeat(" ", gap), margin, f.Message)
		if f.Remedy != "" {
			a.hang(strings.Repeat(" ", margin)+"-> ", margin+len("-> "), f.Remedy)
		}
		if f.Command != "" {
			a.print("%*s$ %s", resultWidth, "", f.Command)
		}
	}
}
