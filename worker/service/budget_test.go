package service_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/workflows"
)

// costing is an agent whose attempts say that they have cost 60 tokens.
func costing() agent.Definition {
	return shell(`echo work > $RANDOM.txt; echo '{"usage":{"output_tokens":60}}' > $MAESTRO_RESULT`)
}

func threeSteps(b spec.Budget) spec.Team {
	persona := spec.Persona{Role: "d", Agent: "a", Instructions: "do"}
	return spec.Team{
		Version: 1, Name: "t", Personas: map[string]spec.Persona{"dev": persona}, Budget: b, Help: spec.Help{Mode: spec.HelpFail},
		Phases: []spec.Phase{{Name: "one", Personas: []string{"dev"}}, {Name: "two", Personas: []string{"dev"}}, {Name: "three", Personas: []string{"dev"}}},
	}
}

func TestBudgetStopsTheSession(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"a": costing()}})
	_, err := s.run("s", threeSteps(spec.Budget{Tokens: 150}))
	require.ErrorContains(t, err, "three/dev failed: token_budget: the budget of the session is not sufficient: 30 of 150 tokens left, and the next call needs 60")
	require.Equal(t, int64(120), s.execution("s").Usage.Tokens(), "the cap is not passed by an attempt that is known to be too dear")
	account := s.account("s")
	require.Equal(t, int64(120), account.Usage().Tokens())
	require.Zero(t, account.Budget(budget.SessionScope).Reserved)
}

func TestRaisedBudgetLetsAParkedSessionGoOnWhereItWas(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"a": costing()}})
	run := s.start("s", threeSteps(spec.Budget{Tokens: 150, WarnAt: []float64{0.3, 0.7}, OnExceeded: spec.OnExceededAsk}))
	key := s.key("s")
	parked := func() bool {
		e, err := s.store.State.Execution(t.Context(), key)
		return err == nil && e.Status.Status == session.HelpIsNeeded && len(e.Help) == 1
	}
	require.Eventually(t, parked, time.Minute, 20*time.Millisecond)
	e := s.execution("s")
	require.Equal(t, session.HelpIsNeeded, e.Assignment(spec.AssignmentID{Phase: "three", Persona: "dev"}).Status)
	require.Contains(t, e.Help[0].Command, "maestro budget raise s --tokens N")
	require.Contains(t, e.Reason, "30 of 150 tokens left")

	raise := func(id string, r workflows.Raise) (activities.Raised, error) {
		handle, err := s.client.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
			WorkflowID: "s", UpdateID: id, UpdateName: workflows.RaiseUpdate, Args: []any{r}, WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		require.NoError(t, err)
		var raised activities.Raised
		return raised, handle.Get(t.Context(), &raised)
	}
	_, err := raise("wrong", workflows.Raise{USD: 1e9})
	require.ErrorContains(t, err, "no USD budget for the session")
	raised, err := raise("more", workflows.Raise{Tokens: 10, By: "ann"})
	require.NoError(t, err)
	require.Equal(t, activities.Raised{Scope: "session", Cap: spec.Cap{Tokens: 160}, Spent: cost.Amount{Tokens: 120}}, raised)
	require.Eventually(t, func() bool {
		return parked() && s.execution("s").Help[0].Message == "the budget of the session is not sufficient: 40 of 160 tokens left, and the next call needs 60"
	}, time.Minute, 20*time.Millisecond, "not enough: it parks again")
	_, err = raise("enough", workflows.Raise{Tokens: 100})
	require.NoError(t, err)
	require.NotEqual(t, session.HelpIsNeeded, s.execution("s").Status.Status, "who has helped is not told to help")

	var result workflows.SessionResult
	require.NoError(t, run.Get(t.Context(), &result))
	s.keepHistory(run)
	require.Equal(t, int64(180), result.Usage.Tokens())
	e = s.execution("s")
	require.Equal(t, session.Completed, e.Status.Status)
	require.Empty(t, e.Help)
	a := e.Assignment(spec.AssignmentID{Phase: "three", Persona: "dev"})
	require.Equal(t, 1, a.Attempts, "waiting for money uses up nothing")
	require.Equal(t, 1, a.Rounds)
	account := s.account("s")
	require.Equal(t, "ann", account.Raises[0].By)
	warnings := account.Budget(budget.SessionScope).Warnings
	require.Len(t, warnings, 1, "of what is true under the raised cap")
	require.Equal(t, spec.Cap{Tokens: 260}, warnings[0].Cap)
}

func TestSkippingWhatABudgetHasStoppedSettlesIt(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"a": costing()}})
	run := s.start("s", threeSteps(spec.Budget{Tokens: 90, OnExceeded: spec.OnExceededAsk}))
	for _, phase := range []string{"two", "three"} {
		open := func() bool {
			e, err := s.store.State.Execution(t.Context(), s.key("s"))
			return err == nil && len(e.Help) == 1 && e.Help[0].Phase == phase
		}
		require.Eventually(t, open, time.Minute, 20*time.Millisecond, phase)
		handle, err := s.client.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
			WorkflowID: "s", UpdateName: workflows.ResolveUpdate, WaitForStage: client.WorkflowUpdateStageCompleted,
			Args: []any{session.Answer{Request: s.execution("s").Help[0].ID, Action: session.AnswerSkip, By: "ann"}},
		})
		require.NoError(t, err)
		require.NoError(t, handle.Get(t.Context(), nil))
	}
	require.NoError(t, run.Get(t.Context(), nil), "an answer is no failure of the session")
	e := s.execution("s")
	require.Equal(t, session.Skipped, e.Assignment(spec.AssignmentID{Phase: "two", Persona: "dev"}).Status)
	require.Equal(t, session.Completed, e.Status.Status)
}
