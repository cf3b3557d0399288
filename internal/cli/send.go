package cli

import (
	"context"
	"errors"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/workflows"
)

// The bounds of what a person waits for.
const (
	// answerTimeout bounds the wait for a worker to accept an answer.
	answerTimeout = 10 * time.Second
	// applyTimeout bounds the wait for a session to apply it.
	applyTimeout = time.Minute
)

// message is what a person sends to a running session: an update or, under the same name,
// a signal.
type message struct {
	update string
	// id makes the update idempotent; empty: each one is new.
	id       string
	argument any
}

// describe returns Temporal's description of the session.
func (c *connector) describe(ctx context.Context, w *sessionstatus.Watcher) (*workflowpb.WorkflowExecutionInfo, error) {
	info, err := w.Describe(ctx)
	if errors.Is(err, sessionstatus.ErrUnknown) && w.Kept() {
		return nil, usagef("Temporal has lost session %s; resume it from the store first: %s", w.Session, c.commandLine("resume "+w.Session))
	}
	if err != nil {
		return nil, c.explainLook(ctx, w, err)
	}
	return info, nil
}

// send sends a message to a session: as an update, with the result in answer, or if no
// worker takes it in time, as a signal; answered is false then.
func (c *connector) send(ctx context.Context, conn *temporalutil.Connection, session string, m message, answer any) (answered bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	handle, err := conn.UpdateWorkflow(bounded, client.UpdateWorkflowOptions{
		WorkflowID: session, UpdateID: m.id, UpdateName: m.update, Args: []any{m.argument}, WaitForStage: client.WorkflowUpdateStageAccepted,
	})
	if err == nil { // the session has it, and may have agents to stop before it has done it
		applying, cancel := context.WithTimeout(ctx, applyTimeout)
		defer cancel()
		if err = handle.Get(applying, answer); unanswered(applying, err) && ctx.Err() == nil {
			return true, failf("session %s accepted the request but did not complete it within %s; check with %s", session, applyTimeout, c.commandLine("status "+session))
		}
	}
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case !unanswered(bounded, err):
		var refusal *temporal.ApplicationError
		if errors.As(err, &refusal) && refusal.Type() == workflows.NotRaised {
			return false, usagef("session %s: %s", session, refusal.Message())
		}
		if errors.As(err, &refusal) {
			return false, failf("session %s: %s", session, refusal.Message())
		}
		return false, failf("session %s: %w", session, err)
	}
	return false, conn.SignalWorkflow(ctx, session, "", m.update, m.argument)
}

// unanswered reports whether a call to a workflow failed only because no worker
// answered it in time. The server, which knows the deadline, may say so a moment
// before bounded itself is over.
func unanswered(bounded context.Context, err error) bool {
	var late *client.WorkflowUpdateServiceTimeoutOrCanceledError
	return err != nil && (bounded.Err() != nil || errors.As(err, &late))
}
