package workflows_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

func TestSessionThatMayNotStartRunsNothing(t *testing.T) {
	t.Parallel()
	s := &stage{team: newTeam(phase("build", "a")), faults: []string{"no worker has agent x", "check y too"}}
	var app *temporal.ApplicationError
	require.ErrorAs(t, s.play(t).GetWorkflowError(), &app)
	require.Equal(t, session.NotAdmitted, app.Type())
	var faults []string
	require.NoError(t, app.Details(&faults))
	require.Equal(t, s.faults, faults)
	require.Empty(t, s.rounds)
}

func TestCancelledSessionEndsAsCancelled(t *testing.T) {
	t.Parallel()
	tm := newTeam(phase("build", "a"), phase("test", "b"))
	tm.Retry.RoundInitial = textfmt.Duration(time.Hour)
	s := &stage{team: tm}
	s.round = func(activities.RoundInput) (session.RoundResult, error) {
		return session.RoundResult{}, failedRound(failures.TestFailure, "no")
	}
	env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	})
	require.True(t, temporal.IsCanceledError(errors.Unwrap(env.GetWorkflowError())) ||
		temporal.IsCanceledError(env.GetWorkflowError()))
	require.Len(t, s.closed, 1)
	require.Equal(t, session.WasCancelled, s.closed[0].Status.Status)
	got := status(t, env)
	require.Equal(t, session.WasCancelled, got.Status)
	require.Equal(t, session.Pending, got.Phases[0].Assignments[0].Status, "cut off, to be done again")
}

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
