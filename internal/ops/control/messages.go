package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/workflows"
)

// The limits of a caller's waits.
const (
	// AnswerTimeout limits the wait for a worker to accept a message.
	AnswerTimeout = 10 * time.Second
	// ApplyTimeout limits the wait for a session to apply it.
	ApplyTimeout = time.Minute
)

// message is a message to a running session: an update or, with the same name, a signal.
type message struct {
	update string
	// id makes the update idempotent; empty: each one is new.
	id       string
	argument any
	// before is called before the message is sent as a signal; done: it is not needed any more. May be nil.
	before func() (done bool, err error)
}

// running returns Temporal's description of a session that has not ended. Otherwise the
// error has the reason [Lost] or [Ended].
func (b *Base) running(ctx context.Context, w *sessionstatus.Watcher) (*workflowpb.WorkflowExecutionInfo, error) {
	if _, err := b.connected(); err != nil {
		return nil, err
	}
	info, err := w.Describe(ctx)
	switch {
	case errors.Is(err, sessionstatus.ErrUnknown) && w.Kept(ctx):
		return nil, lostError(w.Session)
	case err != nil:
		return nil, looked(w.Session, err)
	case info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return info, endedError(w.Session, sessionstatus.ClosedState(info.GetStatus()))
	}
	return info, nil
}

// send sends a message to a session: as an update, with the result in answer; or, if no worker
// accepts it in time, as a signal. Then answered is false.
func send(ctx context.Context, conn *temporalutil.Connection, sessionID string, m message, answer any) (answered bool,
	err error,
) {
	bounded, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	handle, err := update(bounded, conn, sessionID, m)
	switch {
	case err == nil:
		return true, applied(ctx, sessionID, handle, answer)
	case ctx.Err() != nil:
		return false, ctx.Err()
	case !unanswered(bounded, err):
		return false, refusal(sessionID, err)
	}
	if m.before != nil {
		if done, err := m.before(); done || err != nil {
			return false, err
		}
	}
	return false, conn.SignalWorkflow(ctx, sessionID, "", m.update, m.argument)
}

// update sends an update. Temporal gives it back if the workflow task with it has failed, and then takes it again.
func update(ctx context.Context, conn *temporalutil.Connection, sessionID string, m message) (client.WorkflowUpdateHandle,
	error,
) {
	for {
		handle, err := conn.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: sessionID, UpdateID: m.id, UpdateName: m.update, Args: []any{m.argument},
			WaitForStage: client.WorkflowUpdateStageAccepted,
		})
		if _, notReady := errors.AsType[*serviceerror.WorkflowNotReady](err); !notReady {
			return handle, err
		}
		select {
		case <-ctx.Done():
			return handle, err
		case <-time.After(updatePause):
		}
	}
}

// updatePause is the time after which an update is sent again.
const updatePause = 200 * time.Millisecond

// applied waits until a session that has accepted a message has applied it. The session may have to
// stop agents first.
func applied(ctx context.Context, sessionID string, handle client.WorkflowUpdateHandle, answer any) error {
	bounded, cancel := context.WithTimeout(ctx, ApplyTimeout)
	defer cancel()
	err := handle.Get(bounded, answer)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case unanswered(bounded, err):
		return &Error{
			Problem{Kind: Unavailable, Session: sessionID, Reason: Slow},
			fmt.Errorf("session %s accepted the request but did not complete it within %s", sessionID, ApplyTimeout),
		}
	}
	return refusal(sessionID, err)
}

// refusal is the error of a message that a session does not accept.
func refusal(sessionID string, err error) error {
	refused, ok := errors.AsType[*temporal.ApplicationError](err)
	switch {
	case !ok:
		return conflictf(sessionID, "session %s: %w", sessionID, err)
	case refused.Type() == workflows.NotRaised:
		return invalidf("amount", "session %s: %s", sessionID, refused.Message())
	}
	return conflictf(sessionID, "session %s: %s", sessionID, refused.Message())
}

// unanswered reports whether a call to a workflow failed only because no worker answered it in
// time. The server also has the deadline, and may return this error shortly before bounded ends.
func unanswered(bounded context.Context, err error) bool {
	_, late := errors.AsType[*client.WorkflowUpdateServiceTimeoutOrCanceledError](err)
	return err != nil && (bounded.Err() != nil || late)
}
