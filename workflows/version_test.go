package workflows

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
)

// TestASessionOfANewerVersionWaitsForAWorker that knows its logic.
func TestASessionOfANewerVersionWaitsForAWorker(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.ExecuteWorkflow(TeamSession, SessionInput{Version: LogicVersion + 1})
	require.ErrorContains(t, env.GetWorkflowError(), "upgrade the worker")
}
