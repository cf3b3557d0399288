package temporalutil

import (
	"context"
	"fmt"
	"time"

	workflowservice "go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// openPage is the page size of listings of workflows.
const openPage = 500

// OpenSessions lists the workflows of a type that run on a task queue, and since
// when. A workflow that began a second ago may be missing.
func OpenSessions(ctx context.Context, c client.Client, namespace, workflowType, queue string) (map[session.Key]time.Time,
	error,
) {
	out := map[session.Key]time.Time{}
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: namespace, PageSize: openPage,
		Query: fmt.Sprintf("WorkflowType = '%s' AND TaskQueue = '%s' AND ExecutionStatus = 'Running'", workflowType, queue),
	}
	for {
		answer, err := c.ListWorkflow(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, info := range answer.GetExecutions() {
			key := session.Key{Namespace: namespace, Session: info.GetExecution().GetWorkflowId()}
			out[key] = info.GetStartTime().AsTime()
		}
		request.NextPageToken = answer.GetNextPageToken()
		if len(request.NextPageToken) == 0 {
			return out, nil
		}
	}
}
