package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

// deliverCommand is `deliver`.
type deliverCommand struct {
	*app
	in    control.Deliver
	watch bool
}

func newDeliver(a *app) *cobra.Command {
	c := deliverCommand{app: a}
	cmd := &cobra.Command{
		Use:   "deliver SESSION",
		Short: "Deliver the work of a completed session as a pull request",
		Long: "Deliver the work of a completed session as a pull request. The session continues with its team and a last phase that " +
			"pushes a branch, opens the pull request, and waits until it is merged. Finished work is reused; failed checks and reviews " +
			"send the work of a phase back.\n\n" +
			"Teams whose file has a phase with deliver need no such command.",
		Example: "  maestro deliver web-20261121-abcdef --watch\n" +
			"  maestro deliver web-20261121-abcdef --to github --repository acme/shop --base main --merge ask",
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.in.To, "to", "", "agent of kind delivery (default: the only one that workers offer)")
	flags.StringVar(&c.in.Repository, "repository", "", "OWNER/NAME on the host (default: the one that the session's directory was "+
		"cloned from)")
	flags.StringVar(&c.in.Base, "base", "", "branch that the work is merged into (default: the repository's default branch)")
	flags.StringVar(&c.in.Fix, "fix", "", "phase that does its work again after failed checks and reviews (default: the last one)")
	flags.StringVar((*string)(&c.in.Merge), "merge", string(spec.MergeNever),
		"who merges it: never (people on the host), ask (a person "+
			"who is asked here) or auto (Maestro)")
	flags.StringVar((*string)(&c.in.Method), "method", string(spec.MethodMerge), "how it is merged: merge, squash or rebase")
	flags.BoolVar(&c.watch, "watch", false, "follow the session until it ends, and exit with its outcome")
	a.addPlainFlag(flags)
	return a.addServedFlags(cmd)
}

func (c *deliverCommand) run(ctx context.Context, sessionID string) error {
	p, err := c.served(c.temporalBase(c.openStore))(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	return c.startAndFollow(ctx, p, &sessionID, "", c.watch, func() (control.Started, error) {
		return invoke(ctx, p, httpapi.DeliverSession, httpapi.SessionBody[*control.Deliver]{Session: sessionID, Body: &c.in})
	})
}
