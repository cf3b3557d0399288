// Package entityworkflow is the client of entity workflows: workflows that hold the state of one
// thing, change by updates only, show their state in their memo, and continue as new or
// complete when they have nothing left to do. An update starts the workflow if it does not
// run. The package knows Temporal, and nothing of what is held.
package entityworkflow

import (
	"context"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/platform/retryafter"
)

// WorkflowTaskTimeout is how long Temporal waits for a worker that has taken a workflow
// task of any workflow that Maestro starts, before it gives the task to another one: the
// longest that a killed worker holds up a session between phases. Temporal's default is
// 10 s. A local activity that takes longer than 80% of it costs three events each time;
// a shorter timeout would leave slow hosts too little time to replay a long history.
const WorkflowTaskTimeout = 5 * time.Second

// retryWait is the wait before an update is sent again that reached a workflow just
// as it continued as new or completed.
const retryWait = 100 * time.Millisecond

// Workflow says which entity is meant, and how it is started if it does not run.
type Workflow struct {
	// ID is the workflow's, Queue the task queue that it runs on.
	ID, Queue string
	// Name is its type's, and Input what a new one starts from.
	Name  string
	Input any
	// Summary is what people read of it.
	Summary string
}

// Memo reads what the entity shows under a key into out, as of its last
// acknowledged update, without a worker and without an event in its history. It
// returns false, and does not change out, where there is no such entity, or it has
// failed or was ended by a person, or it has shown nothing yet.
func Memo(ctx context.Context, c client.Client, id, key string, out any) (shown bool, err error) {
	d, err := c.DescribeWorkflowExecution(ctx, id, "")
	if is[*serviceerror.NotFound](err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	info := d.GetWorkflowExecutionInfo()
	payload, ok := info.GetMemo().GetFields()[key]
	valid := info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING ||
		info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	if !ok || !valid {
		return false, nil
	}
	return true, converter.GetDefaultDataConverter().FromPayload(payload, out)
}

// Update sends an update to the entity, which is started if it does not run, until
// it is answered into out, or refused, or the context ends. Temporal answers an id
// that it knows with what it answered before, within one run of the entity.
func Update(ctx context.Context, c client.Client, w Workflow, id, update string, arg, out any) error {
	for {
		err := updateOnce(ctx, c, w, id, update, arg, out)
		if err == nil || ctx.Err() != nil || refused(err) {
			return err
		}
		if !retryafter.Wait(ctx, retryWait) {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

func updateOnce(ctx context.Context, c client.Client, w Workflow, id, update string, arg, out any) error {
	start := c.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		ID: w.ID, TaskQueue: w.Queue, StaticSummary: w.Summary, WorkflowTaskTimeout: WorkflowTaskTimeout,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, w.Name, w.Input)
	handle, err := c.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions: client.UpdateWorkflowOptions{
			WorkflowID: w.ID, UpdateID: id, UpdateName: update, Args: []any{arg},
			WaitForStage: client.WorkflowUpdateStageCompleted,
		},
	})
	if err != nil {
		return err
	}
	return handle.Get(ctx, out)
}

// refused reports whether an update would be refused again.
func refused(err error) bool {
	return is[*temporal.ApplicationError](err) || is[*serviceerror.InvalidArgument](err) ||
		is[*serviceerror.PermissionDenied](err) || is[*serviceerror.NamespaceNotFound](err)
}

// is reports whether an error is of a type, or wraps one.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
