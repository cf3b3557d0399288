package workflows_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// TestHistoriesHoldNoProse holds what the workflow passes on against the rule
// that payloads carry digests and short texts only.
func TestHistoriesHoldNoProse(t *testing.T) {
	t.Parallel()
	tm := newTeam(phase("build", "a"))
	tm.Description = "prose"
	persona := tm.Personas["a"]
	persona.Instructions = strings.Repeat("prose ", 1000)
	tm.Personas["a"] = persona
	payload, err := converter.GetDefaultDataConverter().ToPayload(tm.Resolved().Outline())
	require.NoError(t, err)
	require.NotContains(t, string(payload.GetData()), "prose")
}

func requireHelp(t *testing.T, env *testsuite.TestWorkflowEnvironment, message string) []session.Request {
	t.Helper()
	var app *temporal.ApplicationError
	require.ErrorAs(t, env.GetWorkflowError(), &app)
	require.Equal(t, session.HelpNeeded, app.Type())
	require.Contains(t, app.Error(), message)
	var help []session.Request
	require.NoError(t, app.Details(&help))
	require.NotEmpty(t, help)
	return help
}
