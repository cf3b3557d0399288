package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/store"
)

const outputText = "text"

// planCommand is `plan`. Its flags are those of `run` that say what is done.
type planCommand struct {
	*console
	*storeOpener
	format    string
	workspace workspaceFlags
	course    courseFlags
	supplied  suppliedFlags
}

func newPlan(a *app) *cobra.Command {
	c := planCommand{console: a.console, storeOpener: a.storeOpener}
	cmd := &cobra.Command{
		Use:   "plan TEAM",
		Short: "Show a team's phases, and what `run` with the same flags would execute",
		Long: "Show the phases of a team file, or of a registered team, in order: what each needs, its personas, their agents and checks; and what `run` with the same flags " +
			"would do with each persona's work. The plan is made as at the start of a session, but needs neither a worker nor Temporal, and nothing is started or stored.",
		Example: "  maestro plan team.yaml\n  maestro plan team.yaml --from testing --input implementation=./src",
		Args:    cmdline.Arguments(1, 1),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	c.workspace.add(cmd, "directory whose files the session would start from, before --input adds to them (default: none)")
	c.course.add(cmd)
	c.supplied.add(cmd)
	a.addStateDirFlag(cmd)
	addFormats(cmd, &c.format, outputText, outputJSON)
	return cmd
}

func (c *planCommand) run(ctx context.Context, name string) error {
	t, err := c.teamNamed(ctx, name)
	if err != nil {
		return err
	}
	if err := c.workspace.check(); err != nil {
		return err
	}
	doc, err := c.preview(ctx, t)
	if err != nil {
		return inputError(err)
	}
	if c.format == outputJSON {
		return c.printJSON(doc)
	}
	c.write(doc)
	return nil
}

// preview computes the decisions of an admission, in a temporary store.
func (c *planCommand) preview(ctx context.Context, t spec.Team) (doc control.Plan, err error) {
	dir, err := os.MkdirTemp("", "maestro-plan-")
	if err != nil {
		return doc, failf("make a temporary store for the plan: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the remaining files do no harm
	s, err := store.Create(dir, store.Options{Clock: c.now})
	if err != nil {
		return doc, err
	}
	in := control.NewSession{Team: control.TeamInput{Loaded: &t}, PhaseSelection: c.course.PhaseSelection}
	if err := in.Check(t); err != nil {
		return doc, err
	}
	if in.Workspace, err = c.workspace.snapshot(ctx, c.console, c.environ, s, t); err != nil {
		return doc, err
	}
	if err := c.supplied.store(ctx, c.console, c.environ, s, t, &in); err != nil {
		return doc, err
	}
	return control.Starts{Base: &control.Base{Store: s, Now: c.now}}.Preview(ctx, in)
}

// actionOf describes what happens to an assignment's work.
func actionOf(p control.PlannedPersona) string {
	switch p.Action {
	case session.RunIt:
		return "runs"
	case session.SupplyIt:
		return p.Reason
	case session.Leave:
		return "not run: " + p.Reason
	case session.Restore, session.Drop: // what a new session has none of
	}
	return string(p.Action) + ": " + p.Reason
}
