package service

import (
	"context"
	"errors"
	"fmt"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/workflows"
)

// caller tells Temporal, and the session, about the activity of a context. It sends heartbeats without the SDK, which
// cancels the activity after every error of a heartbeat.
type caller struct{ client client.Client }

// Beat sends a heartbeat.
func (c caller) Beat(ctx context.Context, beat activities.Heartbeat) error {
	info := activity.GetInfo(ctx)
	err := c.client.RecordActivityHeartbeat(ctx, info.TaskToken, beat)
	var gone *serviceerror.NotFound
	var nowhere *serviceerror.NamespaceNotFound
	switch {
	case err == nil:
		return nil
	case errors.As(err, &gone):
		return c.checkWanted(ctx, info)
	case temporal.IsCanceledError(err), errors.Is(err, activity.ErrActivityPaused), errors.Is(err, activity.ErrActivityReset),
		errors.As(err, &nowhere):
		return fmt.Errorf("%w: %w", activities.ErrUnwanted, err)
	}
	return err
}

// checkWanted returns ErrReplaced if Temporal has timed out only this execution of the
// activity, because heartbeats were missing. The next execution waits for the assignment's
// lock, and takes over the result of this one.
func (c caller) checkWanted(ctx context.Context, info activity.Info) error {
	described, err := c.client.DescribeWorkflowExecution(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID)
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
		return fmt.Errorf("%w: %w", activities.ErrUnwanted, err)
	case err != nil:
		return err
	case slices.ContainsFunc(described.GetPendingActivities(), func(p *workflowpb.PendingActivityInfo) bool {
		return p.GetActivityId() == info.ActivityID &&
			(p.GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED || p.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED)
	}):
		return activities.ErrReplaced
	}
	return fmt.Errorf("%w: the session does not wait for it", activities.ErrUnwanted)
}

// Outage signals an outage to the session. It ignores that the session has ended.
func (c caller) Outage(ctx context.Context, news activities.OutageNews) error {
	at := activity.GetInfo(ctx).WorkflowExecution
	return unlessEnded(c.client.SignalWorkflow(ctx, at.ID, at.RunID, workflows.OutageSignal, news))
}

// unlessEnded returns nil for the error of a workflow or activity that has ended.
func unlessEnded(err error) error {
	var over *serviceerror.NotFound
	if errors.As(err, &over) {
		return nil
	}
	return err
}

// programUsage reads the usage that agent programs have noted, with the worker's current
// agents.
type programUsage struct{ worker *Worker }

func (p programUsage) Reported(name string, dir session.WorkDir, call string) (used, estimate cost.Usage, ok bool) {
	return p.worker.plan.Load().agents.Reported(name, dir, call)
}
