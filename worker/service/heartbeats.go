package service

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/activities"
)

// heartbeats sends heartbeats to Temporal without the SDK, which cancels the activity
// after every error of a heartbeat.
type heartbeats struct{ client client.Client }

var _ activities.Heartbeats = heartbeats{}

// Beat reports for the activity that ctx is of.
func (h heartbeats) Beat(ctx context.Context, beat activities.Heartbeat) error {
	info := activity.GetInfo(ctx)
	err := h.client.RecordActivityHeartbeat(ctx, info.TaskToken, beat)
	var gone *serviceerror.NotFound
	var nowhere *serviceerror.NamespaceNotFound
	switch {
	case err == nil:
		return nil
	case errors.As(err, &gone):
		return h.checkWanted(ctx, info)
	case temporal.IsCanceledError(err), errors.Is(err, activity.ErrActivityPaused), errors.Is(err, activity.ErrActivityReset), errors.As(err, &nowhere):
		return fmt.Errorf("%w: %w", activities.ErrUnwanted, err)
	}
	return err
}

// checkWanted returns ErrReplaced if Temporal has timed out only this execution of the
// activity, because heartbeats were missing. The next execution waits for the assignment's
// lock, and takes over the result of this one.
func (h heartbeats) checkWanted(ctx context.Context, info activity.Info) error {
	described, err := h.client.DescribeWorkflowExecution(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID)
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
		return fmt.Errorf("%w: %w", activities.ErrUnwanted, err)
	case err != nil:
		return err
	case isPending(described.GetPendingActivities(), info.ActivityID):
		return activities.ErrReplaced
	}
	return fmt.Errorf("%w: the session does not wait for it", activities.ErrUnwanted)
}

// isPending reports whether a workflow still waits for an activity.
func isPending(pending []*workflowpb.PendingActivityInfo, id string) bool {
	for _, p := range pending {
		if p.GetActivityId() == id {
			return p.GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED || p.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED
		}
	}
	return false
}
