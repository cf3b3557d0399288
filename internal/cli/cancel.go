package cli

import (
	"context"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
)

// cancelDocument is the document of `cancel -o json`.
type cancelDocument struct {
	Session string `json:"session"`
	RunID   string `json:"run_id"`
	// Requested is always true: the session ends once its agents have stopped.
	Requested bool `json:"requested"`
}

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
	w, done, err := c.watch(ctx, sessionID)
	if err != nil {
		return err
	}
	defer done()
	info, err := c.describe(ctx, w)
	switch {
	case err != nil:
		return err
	case info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return usagef("session %s has already ended: it is %s", sessionID, sessionstatus.ClosedState(info.GetStatus()))
	}
	run := info.GetExecution().GetRunId()
	if err := w.Conn.CancelWorkflow(ctx, sessionID, ""); err != nil { // it may have continued as new since
		return err
	}
	c.printErr("cancellation of session %s requested; it ends when its agents have stopped", sessionID)
	if c.output == outputJSON {
		if err := c.printJSON(cancelDocument{sessionID, run, true}); err != nil {
			return err
		}
	}
	if !c.watchIt {
		return nil
	}
	to := newLineObserver(c.console, w)
	defer to.detail.close()
	v, err := track(ctx, w, to, session.State.Closed)
	if err != nil {
		return err
	}
	if v.Status.Status != session.WasCancelled {
		return failf("session %s ended before it could be cancelled: it is %s", sessionID, v.Status.Status)
	}
	return nil
}
