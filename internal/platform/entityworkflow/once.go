package entityworkflow

import (
	"context"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
)

// Once starts a workflow that does one thing, unless one with its id was started before, whatever
// became of that.
func Once(ctx context.Context, c client.Client, w Workflow) error {
	_, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: w.ID, TaskQueue: w.Queue, StaticSummary: w.Summary,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowTaskTimeout:      WorkflowTaskTimeout,

		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, w.Name, w.Input)
	if err == nil || is[*serviceerror.WorkflowExecutionAlreadyStarted](err) {
		return nil
	}
	return fmt.Errorf("start workflow %s: %w", w.ID, err)
}
