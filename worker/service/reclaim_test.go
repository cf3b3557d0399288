package service

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
)

// interrupted is a Temporal with three workflows, each with two activities that the
// worker had under way.
type interrupted struct {
	client.Client
	query     string
	restarted []string
}

func (i *interrupted) WorkflowService() workflowservice.WorkflowServiceClient {
	return interruptedService{temporal: i}
}

// interruptedService is its service.
type interruptedService struct {
	workflowservice.WorkflowServiceClient
	temporal *interrupted
}

func (i interruptedService) ListWorkflowExecutions(_ context.Context, in *workflowservice.ListWorkflowExecutionsRequest,
	_ ...grpc.CallOption,
) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	i.temporal.query = in.GetQuery()
	out := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, id := range []string{"ended", "unreadable", "at work"} {
		out.Executions = append(out.Executions,
			&workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: id}})
	}
	return out, nil
}

func (i *interrupted) DescribeWorkflowExecution(_ context.Context, id,
	_ string,
) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if id == "unreadable" {
		return nil, serviceerror.NewUnavailable("later")
	}
	out := &workflowservice.DescribeWorkflowExecutionResponse{}
	for _, activity := range []string{"1", "2"} {
		out.PendingActivities = append(out.PendingActivities, &workflowpb.PendingActivityInfo{
			ActivityId: id + " " + activity, State: enumspb.PENDING_ACTIVITY_STATE_STARTED, LastWorkerIdentity: "slot before",
		})
	}
	return out, nil
}

func (i *interrupted) CompleteActivityByID(_ context.Context, _, id, _, activity string, _ any, _ error) error {
	switch {
	case id == "ended":
		return serviceerror.NewNotFound("the activity has timed out")
	case activity == "at work 1":
		return serviceerror.NewUnavailable("later")
	}
	i.restarted = append(i.restarted, activity)
	return nil
}

// TestReclaimGoesOnAfterAnError: an activity that has ended, or that cannot be reached,
// keeps no other from being started again; and only workflows of the worker's own
// store are looked at.
func TestReclaimGoesOnAfterAnError(t *testing.T) {
	t.Parallel()
	temporal := &interrupted{}
	st, err := store.Create(filepath.Join(t.TempDir(), "state"), store.Options{Clock: time.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	w := &Worker{store: st, identity: "slot now", Setup: Setup{Connection: &temporalutil.Connection{Client: temporal}}}
	n, err := w.reclaimAll(t.Context())
	require.Equal(t, 1, n)
	require.Equal(t, []string{"at work 2"}, temporal.restarted)
	require.EqualError(t, err, "later\nlater", "what has ended is no error")
	require.Contains(t, temporal.query, "TaskQueue = '"+spec.WorkflowQueue(st.ID())+"'")
}
