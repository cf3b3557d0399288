package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
)

// cancelCommand is `cancel`.
type cancelCommand struct {
	*console
	*connector
	watchIt bool
}

func newCancel(a *app) *cobra.Command {
	c := cancelCommand{console: a.console, connector: a.connector}
	cmd := &cobra.Command{
		Use:   "cancel SESSION",
		Short: "Cancel a session",
		Long:  "Cancel a session. Its agents are stopped; finished work stays in the store. With --watch, follow it until it ends.",
		Args:  cmdline.Arguments(1, 1),
		RunE:  func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().BoolVar(&c.watchIt, "watch", false, "follow the session until it ends; the exit code is 0 if it was cancelled")
	a.addSessionFlags(cmd)
	return cmd
}

func (c *cancelCommand) run(ctx context.Context, sessionID string) error {
	p, err := c.plane(ctx, c.temporalBase)
	if err != nil {
		return err
	}
	defer p.close()
	doc, err := invoke(ctx, p, httpapi.CancelSession, httpapi.OfSession{Session: sessionID})
	if ended := control.ProblemOf(err); ended.Reason == control.Ended {
		return usagef("session %s has already ended: it is %s", sessionID, ended.State)
	}
	if err != nil {
		return c.explainIn(ctx, p, err)
	}
	c.printErr("cancellation of session %s requested; it ends when its agents have stopped", sessionID)
	if err := c.result(doc, func() {}); err != nil || !c.watchIt {
		return err
	}
	w := p.lookout(sessionID, c.now)
	w.exists = true
	v, err := track(ctx, w, newLineObserver(c.console, w), session.State.Closed)
	if err != nil {
		return err
	}
	if v.Status.Status != session.WasCancelled {
		return failf("session %s ended before it could be cancelled: it is %s", sessionID, v.Status.Status)
	}
	return nil
}
