package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/launch"
	"github.com/maestro-hive/maestro/internal/spec"
)

// forkOptions are the flags of `fork`.
type forkOptions struct {
	from  string
	as    string
	team  string
	watch bool
}

func newFork(a *app) *cobra.Command {
	var o forkOptions
	cmd := &cobra.Command{
		Use:   "fork SESSION --from PHASE",
		Short: "Start a new session from another session's work before a phase",
		Long: "Start a new session that reuses another session's finished work, and runs a phase and all phases that depend on it again. The other session is not changed, and may still be running.\n\n" +
			"The cost of reused work stays with the other session and is not in the new session's usage.",
		Example: "  maestro fork web-20261121-abcdef --from implementation --as second-try\n  maestro fork web-20261121-abcdef --from design --team other-model.yaml",
		Args:    cmdline.Arguments(1, 1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.fork(cmd.Context(), o, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.from, "from", "", "phase to run again, with all phases that depend on it (required)")
	flags.StringVar(&o.as, "as", "", "id of the new session (default: team name, date and a random part)")
	flags.StringVar(&o.team, "team", "", "team file of the new session (default: the other session's team)")
	flags.BoolVar(&o.watch, "watch", false, "follow the new session until it ends, and exit with its outcome")
	a.addPlainFlag(flags)
	a.addSessionFlags(cmd)
	return cmd
}

func (a *app) fork(ctx context.Context, o forkOptions, sessionID string) error {
	if o.from == "" {
		return usagef("--from is missing; give the phase to run again")
	}
	if o.as != "" {
		if err := spec.CheckSession(o.as); err != nil {
			return usagef("--as: %w", err)
		}
	}
	s, key, err := a.storedToWrite(sessionID)
	if err != nil {
		return err
	}
	found, err := a.lastGood(ctx, s, key)
	if err != nil {
		return err
	}
	t, err := a.teamOf(ctx, s, found.Checkpoint, o.team)
	if err != nil {
		return err
	}
	if err := checkPhase(t, "--from", o.from); err != nil {
		return err
	}
	conn, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	l := starter{a, launch.Launcher{Conn: conn, Store: s, Now: a.env.Now}}
	fork := found.Fork(sessionID, t, o.from)
	fork.ID = o.as
	if err := l.check(ctx, fork); err != nil {
		return err
	}
	return l.start(ctx, fork, o.watch)
}
