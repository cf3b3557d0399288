package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/launch"
	"github.com/maestro-hive/maestro/internal/spec"
)

// forkCommand is `fork`.
type forkCommand struct {
	*app
	from  string
	as    string
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
	flags.StringVar(&c.from, "from", "", "phase to run again, with all phases that depend on it (required)")
	flags.StringVar(&c.as, "as", "", "id of the new session (default: team name, date and a random part)")
	flags.StringVar(&c.team, "team", "", "team file of the new session (default: the other session's team)")
	flags.BoolVar(&c.watch, "watch", false, "follow the new session until it ends, and exit with its outcome")
	a.addPlainFlag(flags)
	a.addSessionFlags(cmd)
	return cmd
}

func (c *forkCommand) run(ctx context.Context, sessionID string) error {
	if c.from == "" {
		return usagef("--from is missing; give the phase to run again")
	}
	if c.as != "" {
		if err := spec.CheckSession(c.as); err != nil {
			return usagef("--as: %w", err)
		}
	}
	s, key, err := c.storedToWrite(sessionID)
	if err != nil {
		return err
	}
	found, err := lastGood(ctx, c.console, s, key)
	if err != nil {
		return err
	}
	t, err := teamOf(ctx, s, found.Checkpoint, c.team)
	if err != nil {
		return err
	}
	if err := checkPhase(t, "--from", c.from); err != nil {
		return err
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	l := starter{c.app, launch.Launcher{Conn: conn, Store: s, Now: c.env.Now}}
	fork := found.Fork(sessionID, t, c.from)
	fork.ID = c.as
	if err := l.check(ctx, fork); err != nil {
		return err
	}
	return l.start(ctx, fork, c.watch)
}
