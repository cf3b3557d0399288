package service

import (
	"context"
	"errors"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/workflows"
)

// sessionSignals signals the workflow of an activity.
type sessionSignals struct{ client client.Client }

var _ activities.Signals = sessionSignals{}

// Outage signals an outage to the session of ctx's activity. It ignores that the session has
// ended.
func (s sessionSignals) Outage(ctx context.Context, news activities.OutageNews) error {
	at := activity.GetInfo(ctx).WorkflowExecution
	err := s.client.SignalWorkflow(ctx, at.ID, at.RunID, workflows.OutageSignal, news)
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return nil
	}
	return err
}
