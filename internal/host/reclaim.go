package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/workflows"
)

// reclaimLimit bounds what a worker that starts spends on the work that it had
// under way when it died. What it does not get to waits for its heartbeat's
// timeout.
const reclaimLimit = 10 * time.Second

// reclaim has Temporal start again, at once, what a process with this worker's
// seat had under way when it died. It is correct because the worker holds the
// lock on its seat: nobody else works from it.
func (w *Worker) reclaim(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reclaimLimit)
	defer cancel()
	tasks, failed := giveBack(ctx, w.options.Client.WorkflowService(), w.options.Namespace, w.options.Identity, w.options.Left)
	n, err := w.reclaimAll(ctx)
	if n+tasks > 0 {
		w.options.Logger.Info("took up again what a crash had cut off", "activities", n, "workflow_tasks", tasks)
	}
	if err := errors.Join(failed, err); err != nil {
		w.options.Logger.Warn("could not look for work that a crash has cut off; it goes on after its timeout", "error", err)
	}
}

func (w *Worker) reclaimAll(ctx context.Context) (n int, err error) {
	service := w.options.Client.WorkflowService()
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: w.options.Namespace,
		Query: fmt.Sprintf("WorkflowType IN ('%s', '%s', '%s') AND ExecutionStatus = 'Running'",
			workflows.TeamSessionName, workflows.TicketName, workflows.WebhookName),
	}
	for {
		page, err := service.ListWorkflowExecutions(ctx, request)
		if err != nil {
			return n, err
		}
		for _, e := range page.GetExecutions() {
			found, err := w.reclaimFrom(ctx, e.GetExecution())
			if n += found; err != nil {
				return n, err
			}
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			return n, nil
		}
	}
}

// reclaimFrom fails a workflow's activities that were started from this worker's
// seat, so that Temporal, or the workflow itself, starts them again.
func (w *Worker) reclaimFrom(ctx context.Context, cut *commonpb.WorkflowExecution) (n int, err error) {
	d, err := w.options.Client.DescribeWorkflowExecution(ctx, cut.GetWorkflowId(), cut.GetRunId())
	if err != nil {
		return 0, err
	}
	for _, a := range d.GetPendingActivities() {
		if !w.had(a) {
			continue
		}
		lost := temporal.NewApplicationErrorWithOptions("the worker died and is back", team.HandedOver,
			temporal.ApplicationErrorOptions{NextRetryDelay: time.Millisecond})
		if err := w.options.Client.CompleteActivityByID(ctx, w.options.Namespace, cut.GetWorkflowId(), cut.GetRunId(), a.GetActivityId(), nil, lost); err != nil {
			return n, err
		}
		n++
	}
	if n == 0 {
		return 0, nil
	}
	// The workflow's next step need not wait for the dead worker's cache either.
	_, err = w.options.Client.WorkflowService().ResetStickyTaskQueue(ctx, &workflowservice.ResetStickyTaskQueueRequest{
		Namespace: w.options.Namespace, Execution: cut,
	})
	return n, err
}

// had tells whether an activity was started from this worker's seat: by a process
// that is gone, perhaps of another version.
func (w *Worker) had(a *workflowpb.PendingActivityInfo) bool {
	return a.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED && sameSeat(a.GetLastWorkerIdentity(), w.options.Identity)
}
