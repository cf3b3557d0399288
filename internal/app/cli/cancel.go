package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

func newCancel(a *app) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "cancel SESSION",
		Short: "Cancel a session",
		Long:  "Cancel a session. Its agents are stopped; finished work stays in the store. With --watch, follow it until it ends.",
		RunE:  func(cmd *cobra.Command, args []string) error { return a.cancel(cmd.Context(), args[0], watch) },
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "follow the session until it ends; the exit code is 0 if it was cancelled")
	return a.addServedFlags(cmd)
}

func (a *app) cancel(ctx context.Context, sessionID string, watch bool) error {
	p, err := a.served(a.temporalBase(a.openStore))(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	doc, err := invoke(ctx, p, httpapi.CancelSession, httpapi.OfSession{Session: sessionID})
	if ended := control.ProblemOf(err); ended.Reason == control.Ended {
		return usagef("session %s has already ended: it is %s", sessionID, ended.State)
	}
	if err != nil {
		return a.explain(err)
	}
	a.printErr("cancellation of session %s requested; it ends when its agents have stopped", sessionID)
	if err := a.result(doc, func() {}); err != nil || !watch {
		return err
	}
	w := p.lookout(sessionID, a.now)
	w.exists = true
	v, err := track(ctx, w, newLineObserver(a.console, w), session.State.Closed)
	if err != nil {
		return err
	}
	if v.Status.Status != session.WasCancelled {
		return failf("session %s ended before it could be cancelled: it is %s", sessionID, v.Status.Status)
	}
	return nil
}
