package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/control"
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
	a.addSessionFlags(cmd)
	return cmd
}

func (c *forkCommand) run(ctx context.Context, sessionID string) (err error) {
	if c.fork.From == "" {
		return usagef("--from is missing; give the phase to run again")
	}
	if c.fork.Team, err = c.teamInput(ctx, c.team); err != nil {
		return err
	}
	base, done, err := c.startingBase(ctx, c.openStoreToWrite)
	if err != nil {
		return err
	}
	defer done()
	doc, err := control.Starts{Base: base}.Fork(ctx, sessionID, c.fork)
	return c.begun(ctx, planeOf(base, done), doc, err, c.watch)
}

// teamInput is the team of a file or a registered one; without a name it names none.
func (o *storeOpener) teamInput(ctx context.Context, name string) (control.TeamInput, error) {
	if name == "" {
		return control.TeamInput{}, nil
	}
	t, err := o.teamNamed(ctx, name)
	return control.TeamInput{Loaded: &t}, err
}
