package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/faces/client"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
)

// forkCommand is `fork`.
type forkCommand struct {
	*app
	fork  control.Fork
	team  string
	watch bool
}

func newFork(a *app) *cobra.Command {
	c := forkCommand{app: a}
	cmd := &cobra.Command{
		Use:   "fork SESSION --from PHASE",
		Short: "Start a new session from another session's work before a phase",
		Long: "Start a new session that reuses another session's finished work, and runs a phase and all phases that depend on it again. The other session is not changed, and may still be running.\n\n" +
			"The cost of reused work stays with the other session and is not in the new session's usage.",
		Example: "  maestro fork web-20261121-abcdef --from implementation --as second-try\n  maestro fork web-20261121-abcdef --from design --team other-model.yaml",
		Args:    cmdline.Arguments(1, 1),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.fork.From, "from", "", "phase to run again, with all phases that depend on it (required)")
	flags.StringVar(&c.fork.As, "as", "", "id of the new session (default: team name, date and a random part)")
	flags.StringVar(&c.team, "team", "", "team of the new session: a file, or a registered team, NAME or NAME@DIGEST (default: the other session's)")
	flags.BoolVar(&c.watch, "watch", false, "follow the new session until it ends, and exit with its outcome")
	a.addPlainFlag(flags)
	a.addServedFlags(cmd)
	return cmd
}

func (c *forkCommand) run(ctx context.Context, sessionID string) (err error) {
	if c.fork.From == "" {
		return usagef("--from is missing; give the phase to run again")
	}
	server, err := c.client()
	if err != nil {
		return err
	}
	if c.fork.Team, err = c.teamInput(ctx, server, c.team); err != nil {
		return err
	}
	p, err := c.plane(ctx, func(ctx context.Context) (*control.Base, func(), error) {
		return c.startingBase(ctx, c.openStore)
	})
	if err != nil {
		return err
	}
	defer p.close()
	start := func() (control.Started, error) {
		return invoke(ctx, p, httpapi.ForkSession, httpapi.SessionBody[control.Fork]{Session: sessionID, Body: c.fork})
	}
	if server == nil {
		doc, err := start()
		return c.begun(ctx, p, doc, err, c.watch)
	}
	team, err := c.teamOf(ctx, p, sessionID)
	if err != nil {
		return c.explainStart(ctx, p, err)
	}
	doc, err := c.startServed(ctx, &c.fork.As, team, start)
	return c.begun(ctx, p, doc, err, c.watch)
}

// teamOf is the name of the fork's team.
func (c *forkCommand) teamOf(ctx context.Context, p *plane, sessionID string) (string, error) {
	if t := c.fork.Team.Loaded; t != nil {
		return t.Name, nil
	}
	v, err := p.status(ctx, sessionID)
	return v.Team, err
}

// teamInput is the team of a file or a registered one; without a name it names none.
func (o *storeOpener) teamInput(ctx context.Context, server *client.Client, name string) (control.TeamInput, error) {
	if name == "" {
		return control.TeamInput{}, nil
	}
	t, reference, err := o.teamFor(ctx, server, name)
	return control.TeamInput{Name: reference, Loaded: &t}, err
}
