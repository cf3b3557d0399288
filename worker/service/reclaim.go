package service

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

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/workflows"
)

// reclaimLimit bounds how long a starting worker reclaims the activities that it ran
// when it crashed. Temporal retries the others after their heartbeat timeout.
const reclaimLimit = 10 * time.Second

// reclaim makes Temporal retry, at once, the activities that a crashed process with this
// worker's slot had started. It is correct because the worker holds the
// lock on its slot: no other process uses the same identity. A workflow task of that
// process waits for [entityworkflow.WorkflowTaskTimeout].
func (w *Worker) reclaim(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reclaimLimit)
	defer cancel()
	n, err := w.reclaimAll(ctx)
	if n > 0 {
		w.Logger.Info("retried activities that a crash had interrupted", "activities", n)
	}
	if err != nil {
		w.Logger.Warn("could not find all activities that a crash has interrupted; they are retried after their heartbeat timeout",
			"error", err)
	}
}

func (w *Worker) reclaimAll(ctx context.Context) (n int, err error) {
	service := w.Connection.WorkflowService()
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: w.Connection.Namespace,
		Query: fmt.Sprintf("TaskQueue = '%s' AND WorkflowType IN ('%s', '%s', '%s') AND ExecutionStatus = 'Running'",
			spec.WorkflowQueue(w.store.ID()), workflows.TeamSessionName, workflows.TicketName, workflows.WebhookName),
	}
	var failed error
	for ctx.Err() == nil {
		page, err := service.ListWorkflowExecutions(ctx, request)
		if err != nil {
			return n, errors.Join(failed, err)
		}
		for _, e := range page.GetExecutions() {
			found, err := w.reclaimFrom(ctx, e.GetExecution())
			n, failed = n+found, errors.Join(failed, err)
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			break
		}
	}
	return n, failed
}

// reclaimFrom fails a workflow's activities that were started from this worker's slot,
// so that Temporal, or the workflow itself, starts them again. It ignores activities that
// have ended meanwhile, and continues after the error of one activity.
func (w *Worker) reclaimFrom(ctx context.Context, cut *commonpb.WorkflowExecution) (n int, err error) {
	d, err := w.Connection.DescribeWorkflowExecution(ctx, cut.GetWorkflowId(), cut.GetRunId())
	if err != nil {
		return 0, unlessEnded(err)
	}
	for _, a := range d.GetPendingActivities() {
		if !w.isOwn(a) {
			continue
		}
		lost := temporal.NewApplicationErrorWithOptions("the worker was restarted", session.HandedOver,
			temporal.ApplicationErrorOptions{NextRetryDelay: time.Millisecond})
		failed := w.Connection.CompleteActivityByID(ctx, w.Connection.Namespace, cut.GetWorkflowId(), cut.GetRunId(),
			a.GetActivityId(), nil, lost)
		if failed == nil {
			n++
		}
		err = errors.Join(err, unlessEnded(failed))
	}
	return n, err
}

// isOwn reports whether an activity was started from this worker's slot: by an earlier
// process, maybe of another version.
func (w *Worker) isOwn(a *workflowpb.PendingActivityInfo) bool {
	return a.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED && sameSlot(a.GetLastWorkerIdentity(), w.identity)
}
