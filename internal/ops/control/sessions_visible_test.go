package control

import (
	"context"
	"fmt"
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
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
	"github.com/maestro-hive/maestro/workflows"
)

// busyTemporal lists 200 old sessions of team web that run, and then newer ones that have ended, as
// servers with SQLite do.
type busyTemporal struct {
	client.Client
	running, ended []*workflowpb.WorkflowExecutionInfo
}

func (b *busyTemporal) WorkflowService() workflowservice.WorkflowServiceClient {
	return endedSessions{list: b.ended}
}

// endedSessions describes sessions.
type endedSessions struct {
	workflowservice.WorkflowServiceClient
	list []*workflowpb.WorkflowExecutionInfo
}

func (b *busyTemporal) ListWorkflow(_ context.Context,
	in *workflowservice.ListWorkflowExecutionsRequest,
) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	if len(in.GetNextPageToken()) == 0 {
		return &workflowservice.ListWorkflowExecutionsResponse{Executions: b.running, NextPageToken: []byte("ended")}, nil
	}
	return &workflowservice.ListWorkflowExecutionsResponse{Executions: b.ended}, nil
}

func (s endedSessions) DescribeWorkflowExecution(_ context.Context, in *workflowservice.DescribeWorkflowExecutionRequest,
	_ ...grpc.CallOption,
) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	for _, info := range s.list {
		if info.GetExecution().GetWorkflowId() == in.GetExecution().GetWorkflowId() {
			return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info}, nil
		}
	}
	return nil, serviceerror.NewNotFound("no such workflow")
}

func TestTheNewestSessionsNeedNotBeThoseThatTemporalListsFirst(t *testing.T) {
	t.Parallel()
	s, err := store.Create(filepath.Join(t.TempDir(), "store"), store.Options{Clock: time.Now})
	require.NoError(t, err)
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	info := func(id, team string, started time.Time, status enumspb.WorkflowExecutionStatus) *workflowpb.WorkflowExecutionInfo {
		memo := map[string]*commonpb.Payload{}
		for key, value := range map[string]string{workflows.MemoTeam: team, workflows.MemoStore: s.ID()} {
			payload, err := converter.GetDefaultDataConverter().ToPayload(value)
			require.NoError(t, err)
			memo[key] = payload
		}
		return &workflowpb.WorkflowExecutionInfo{
			Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: id},
			Type:      &commonpb.WorkflowType{Name: workflows.TeamSessionName},
			StartTime: timestamppb.New(started), Status: status, Memo: &commonpb.Memo{Fields: memo},
		}
	}
	temporal := &busyTemporal{ended: []*workflowpb.WorkflowExecutionInfo{
		info("killed", "api", began.Add(time.Hour), enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED),
	}}
	for i := range listPage {
		temporal.running = append(temporal.running, info(fmt.Sprintf("old-%03d", i), "web", began,
			enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING))
	}
	b := &Base{
		Store: s, Namespace: "default", Now: time.Now,
		Temporal: Connected(&temporalutil.Connection{Client: temporal, Namespace: "default"}),
	}
	for _, name := range []string{"killed", "lost"} {
		started := began.Add(time.Hour)
		statetest.Put(t, s.State, b.key(name), func(e *session.Execution) {
			e.Team, e.Status.Status, e.StartedAt = "api", session.Running, &started
		})
	}

	doc, err := Sessions{b}.List(access.With(t.Context(), access.Local("ann")), SessionFilter{Limit: 3})
	require.NoError(t, err)
	require.True(t, doc.More)
	require.Equal(t, []string{"killed", "lost", "old-000"}, []string{
		doc.Sessions[0].Session, doc.Sessions[1].Session,
		doc.Sessions[2].Session,
	})
	require.Equal(t, []bool{true, false, true}, []bool{doc.Sessions[0].Temporal, doc.Sessions[1].Temporal, doc.Sessions[2].Temporal})
	require.Equal(t, session.Failed, doc.Sessions[0].Status, "the store's document is older than its end")

	one := access.With(t.Context(), access.Actor{Name: "bob", Roles: access.Roles{"api": {access.RoleViewer}}})
	doc, err = Sessions{&Base{Namespace: "default", Now: time.Now, Temporal: b.Temporal}}.List(one, SessionFilter{Limit: 3})
	require.NoError(t, err)
	require.Len(t, doc.Sessions, 1)
	require.Equal(t, "killed", doc.Sessions[0].Session)
}
