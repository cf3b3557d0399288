package temporalutil

import (
	"context"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// maxUnread bounds the events that are read in search of signals.
const maxUnread = 1000

// UnreadSignals are the inputs of the signals of a name that no worker has read yet, the newest first.
func (c *Connection) UnreadSignals(ctx context.Context, workflowID, name string) (unread []*commonpb.Payloads, err error) {
	request := &workflowservice.GetWorkflowExecutionHistoryReverseRequest{
		Namespace: c.Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: workflowID}, MaximumPageSize: 100,
	}
	for seen := 0; seen < maxUnread; {
		page, err := c.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, e := range page.GetHistory().GetEvents() {
			seen++
			if e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
				return unread, nil
			}
			if signal := e.GetWorkflowExecutionSignaledEventAttributes(); signal.GetSignalName() == name {
				unread = append(unread, signal.GetInput())
			}
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			break
		}
	}
	return unread, nil
}
