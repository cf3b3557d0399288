package sessionstatus

import (
	"errors"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// Memo reads a value from the memo of a session, or of a listed one; zero if it is missing.
func Memo[T any](info *workflowpb.WorkflowExecutionInfo, key string) T {
	return valueOf[T](info.GetMemo().GetFields()[key])
}

// Attribute reads a search attribute of a session, or of a listed one; zero if it is missing.
func Attribute[T any](info *workflowpb.WorkflowExecutionInfo, name string) T {
	return valueOf[T](info.GetSearchAttributes().GetIndexedFields()[name])
}

func valueOf[T any](payload *commonpb.Payload) T {
	var value, none T
	if payload == nil || converter.GetDefaultDataConverter().FromPayload(payload, &value) != nil {
		return none
	}
	return value
}

// heartbeat reads a round's last heartbeat.
func heartbeat(p *workflowpb.PendingActivityInfo) (activities.Heartbeat, bool) {
	var h activities.Heartbeat
	if p.GetHeartbeatDetails() == nil || converter.GetDefaultDataConverter().FromPayloads(p.GetHeartbeatDetails(), &h) != nil {
		return h, false
	}
	return h, true
}

// notAdmitted reads the reasons from the error of a session that was not admitted.
func notAdmitted(err error) ([]string, bool) {
	app, ok := errors.AsType[*temporal.ApplicationError](err)
	if !ok || app.Type() != session.NotAdmitted {
		return nil, false
	}
	var faults []string
	if app.HasDetails() && app.Details(&faults) == nil && len(faults) > 0 {
		return faults, true
	}
	return []string{app.Message()}, true
}

// helpNeeded reads the help requests from a session's error.
func helpNeeded(err error) []session.Request {
	var help []session.Request
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok && app.Type() == session.HelpNeeded && app.HasDetails() &&
		app.Details(&help) == nil {
		return help
	}
	return nil
}

// ClosedState is the state of a session whose run is closed in Temporal.
func ClosedState(s enumspb.WorkflowExecutionStatus) session.State {
	switch s {
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return session.Completed
	case enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return session.WasCancelled
	case enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW:
		return session.Running
	default:
		return session.Failed
	}
}
