package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/workflows"
)

// spent is how a round ends whose session has spent its budget.
func spent() error {
	return temporal.NewApplicationErrorWithOptions("spent", team.BudgetSpent, temporal.ApplicationErrorOptions{
		NonRetryable: true, Details: []any{activities.BudgetStop{Scope: "session", Message: "it is spent", Total: team.Usage{InputTokens: 7}}},
	})
}

func TestDegradedAssignmentStaysWithItsFallback(t *testing.T) {
	t.Parallel()
	s := &stage{team: newTeam(phase("build", "a"))}
	persona := s.team.Personas["a"]
	persona.Fallback = true
	s.team.Personas["a"] = persona
	s.team.Budget = team.Budget{Tokens: 100, OnExceeded: team.OnExceededDegrade}
	s.fallbacks = map[string]string{persona.Agent: "cheap"}
	ends := []error{away(0), spent(), away(0), nil}
	s.round = func(activities.RoundInput) (team.RoundResult, error) {
		return team.RoundResult{}, ends[len(s.rounds)-1]
	}
	env := s.play(t, awaiting(func(context.Context, activities.AwaitInput) (activities.Awaited, error) {
		return activities.Awaited{}, nil
	}, nil))
	require.NoError(t, env.GetWorkflowError())
	var agents []string
	for _, in := range s.rounds {
		agents = append(agents, in.Agent)
	}
	require.Equal(t, []string{"", "cheap", "cheap", "cheap"}, agents)
}

func TestRaisesBySignalOfDifferentRunsAreDifferent(t *testing.T) {
	t.Parallel()
	s := &stage{team: newTeam(phase("build", "a"))}
	s.team.Budget = team.Budget{Tokens: 100, OnExceeded: team.OnExceededAsk}
	s.round = func(activities.RoundInput) (team.RoundResult, error) {
		if len(s.rounds) == 1 {
			return team.RoundResult{}, spent()
		}
		return team.RoundResult{}, nil
	}
	var raised []activities.RaiseInput
	env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterActivityWithOptions(func(_ context.Context, in activities.RaiseInput) (activities.Raised, error) {
			raised = append(raised, in)
			return activities.Raised{Scope: in.Scope}, nil
		}, activity.RegisterOptions{Name: string(activities.RaiseName)})
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(workflows.RaiseUpdate, workflows.Raise{Tokens: 50}) }, time.Minute)
	})
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, raised, 1)
	require.NotEqual(t, "signal-1", raised[0].ID, "the ledger has raises of all incarnations")
}

func TestRoundThatCouldNotLookDoesNotForgetWhatWasSpent(t *testing.T) {
	t.Parallel()
	s := &stage{team: newTeam(phase("build", "a"))}
	s.round = func(in activities.RoundInput) (team.RoundResult, error) {
		if in.Round == 1 {
			return team.RoundResult{}, failedRound(team.TestFailure, "no")
		}
		report := activities.RoundFailure{Failure: team.Failure{Category: team.ResourceError, Message: "a blob is gone", Final: true}}
		return team.RoundResult{}, temporal.NewApplicationErrorWithOptions("gone", team.UnrecoverableError,
			temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{report}})
	}
	env := s.play(t)
	help := requireHelp(t, env, "build/a failed: resource_error: a blob is gone")
	require.Equal(t, int64(7), help[0].Usage.Tokens())
	require.Equal(t, int64(7), status(t, env).Usage.Tokens())
}
