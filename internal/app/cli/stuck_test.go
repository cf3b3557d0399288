package cli_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
	"github.com/maestro-hive/maestro/workflows"
)

// TestASessionWhoseWorkflowTaskFailsIsNamed: status, inbox and doctor say why it makes no progress, and cancel ends it
// although it cannot act on anything.
func TestASessionWhoseWorkflowTaskFailsIsNamed(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	address := temporaltest.Start(t, append([]string{
		"--dynamic-config-value", "system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute=2",
	}, searchAttributes...)...)
	b.set("TEMPORAL_ADDRESS", address)
	c, err := client.Dial(client.Options{HostPort: address, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	queue := spec.WorkflowQueue(b.store.ID())
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflowWithOptions(func(workflow.Context, workflows.SessionInput) error { panic("a state that it does not know") },
		workflow.RegisterOptions{Name: workflows.TeamSessionName})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	b.asks("wedged", session.AwaitingApproval, session.Request{ID: "r-1", Kind: session.ForApproval, Phase: "build", Message: "it is done", Since: time.Now()})
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: "wedged", TaskQueue: queue, Memo: map[string]any{
			workflows.MemoStore: b.store.ID(), workflows.MemoTeam: "crew", workflows.MemoStatus: workflows.MemoSummary{Status: session.AwaitingApproval},
		},
	}, workflows.TeamSessionName, workflows.SessionInput{})
	require.NoError(t, err)
	statetest.Put(t, b.store.State, key("wedged"), func(e *session.Execution) { e.RunID = run.GetRunID() })

	var got inbox
	require.Eventually(t, func() bool {
		got = inbox{}
		b.json(&got, "inbox")
		return len(got.Waiting) == 2
	}, patience, 500*time.Millisecond)
	require.Equal(t, "wedged", got.Waiting[0].Session)
	require.Equal(t, "help", got.Waiting[0].Kind, "it needs more than the approval that it waits for")
	require.Equal(t, "r-1", got.Waiting[1].ID)
	require.Contains(t, got.Waiting[0].Message, "its workflow task has failed")
	require.Contains(t, b.must(0, "inbox"), "wedged")
	status := b.must(0, "status", "wedged")
	require.Contains(t, status, "a state that it does not know")
	require.Contains(t, status, "maestro resume wedged")
	var named finding
	for _, f := range b.findings() {
		if f.Check == "session progress" {
			named = f
		}
	}
	require.Equal(t, "bad", named.Result)
	require.Contains(t, named.Message, "session wedged: it makes no progress")

	b.must(0, "cancel", "wedged")
	require.Eventually(t, func() bool {
		d, err := c.DescribeWorkflowExecution(t.Context(), "wedged", "")
		return err == nil && d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	}, patience, 100*time.Millisecond)
}
