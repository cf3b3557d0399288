package workflows_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// spentDay is how a round ends whose team has spent its day.
func spentDay() error {
	return temporal.NewApplicationErrorWithOptions("spent", session.BudgetSpent, temporal.ApplicationErrorOptions{
		NonRetryable: true,
		Details: []any{activities.BudgetStop{
			Scope: "day", Message: "the day is spent", Date: "2026-01-31", Least: cost.Amount{Tokens: 60},
			RoundReport: session.RoundReport{Total: cost.Usage{InputTokens: 7}},
		}},
	})
}

// asking is a stage whose first round finds the day spent.
func asking() *stage {
	s := &stage{team: newTeam(phase("build", "dev"))}
	s.team.Budget = spec.Budget{Daily: spec.Cap{Tokens: 100}, OnExceeded: spec.OnExceededAsk}
	s.round = func(activities.RoundInput) (session.RoundResult, error) {
		if len(s.rounds) == 1 {
			return session.RoundResult{}, spentDay()
		}
		return session.RoundResult{}, nil
	}
	return s
}

func TestSessionOfASpentDayContinuesAtMidnight(t *testing.T) {
	t.Parallel()
	s := asking()
	var mu sync.Mutex
	var waited []activities.AwaitBudgetInput
	env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterActivityWithOptions(func(_ context.Context, in activities.AwaitBudgetInput) error {
			mu.Lock()
			defer mu.Unlock()
			waited = append(waited, in)
			return nil
		}, activity.RegisterOptions{Name: string(activities.AwaitBudgetName)})
	})
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, waited, 1)
	require.Equal(t, []activities.AwaitBudgetInput{{
		AssignmentID: spec.AssignmentID{Phase: "build", Persona: "dev"}, Scope: "day", Team: "t", Date: "2026-01-31",
		Least: cost.Amount{Tokens: 60},
	}}, waited)
	require.Len(t, s.rounds, 2)
	require.Equal(t, 1, s.rounds[1].Round, "it goes on where it was")
	require.Equal(t, []int{0, 1, 2}, []int{s.rounds[1].Ordered, s.rounds[1].Round, s.rounds[1].Seq})
	require.Equal(t, []session.State{session.HelpIsNeeded, session.Running}, s.marked,
		"the store is told that it parks, and that it goes on")
	require.Empty(t, status(t, env).Help)
	require.Equal(t, session.Completed, status(t, env).Status)
}

func TestCancelledWhileItWaitsForTheNextDay(t *testing.T) {
	t.Parallel()
	s := asking()
	env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterActivityWithOptions(func(context.Context, activities.AwaitBudgetInput) error { return nil },
			activity.RegisterOptions{Name: string(activities.AwaitBudgetName)})
		env.OnActivity(string(activities.AwaitBudgetName), mock.Anything, mock.Anything).After(time.Hour).Return(nil)
		env.RegisterDelayedCallback(func() {
			got := status(t, env)
			require.Equal(t, session.HelpIsNeeded, got.Status)
			require.Contains(t, got.Help[0].Suggestion, "continues by itself at 2026-02-01 00:00 UTC")
			require.Contains(t, got.Help[0].Command, "maestro budget raise --team t --tokens N")
			env.CancelWorkflow()
		}, time.Minute)
	})
	require.ErrorContains(t, env.GetWorkflowError(), "canceled")
	require.Len(t, s.rounds, 1)
	require.Equal(t, session.WasCancelled, s.closed[0].Status.Status)
}
