package workflows

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
)

// TestAChangeOfLogicIsForSessionsThatBeginWithIt gates a change by one line, in the
// workflow and in an update's handler.
func TestAChangeOfLogicIsForSessionsThatBeginWithIt(t *testing.T) {
	t.Parallel()
	const change = LogicVersion // the version that brought it
	var updated bool
	gated := func(ctx workflow.Context, version int) (string, error) {
		ctx = withVersion(ctx, version)
		handle := func(ctx workflow.Context, _ string) (string, error) {
			updated = since(ctx, change)
			return "", nil
		}
		if err := onUpdate(ctx, "change", handle, workflow.UpdateHandlerOptions{}); err != nil {
			return "", err
		}
		if err := workflow.Sleep(ctx, 1); err != nil {
			return "", err
		}
		if since(ctx, change) {
			return "as it is now", nil
		}
		return "as it was", nil
	}
	for version, result := range map[int]string{change - 1: "as it was", change: "as it is now"} {
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestWorkflowEnvironment()
		env.RegisterDelayedCallback(func() {
			env.UpdateWorkflow("change", "1", &testsuite.TestUpdateCallback{OnReject: func(err error) { t.Error(err) }, OnAccept: func() {}, OnComplete: func(any, error) {}}, "")
		}, 0)
		env.ExecuteWorkflow(gated, version)
		require.NoError(t, env.GetWorkflowError())
		var got string
		require.NoError(t, env.GetWorkflowResult(&got))
		require.Equal(t, result, got, "version %d", version)
		require.Equal(t, version >= change, updated, "version %d, in a handler", version)
	}
}

// TestASessionOfANewerVersionWaitsForAWorker that knows its logic.
func TestASessionOfANewerVersionWaitsForAWorker(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.ExecuteWorkflow(TeamSession, SessionInput{Version: LogicVersion + 1})
	require.ErrorContains(t, env.GetWorkflowError(), "upgrade the worker")
}
