package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// leaves is a team of two phases side by side.
func leaves() spec.Team {
	return spec.Team{
		Version: 1, Name: "t",
		Personas: map[string]spec.Persona{"a": {Role: "a", Agent: "agent-a"}, "b": {Role: "b", Agent: "agent-b"}},
		Phases: []spec.Phase{
			{Name: "left", Needs: []string{}, Personas: []string{"a"}},
			{Name: "right", Needs: []string{}, Personas: []string{"b"}},
		},
	}
}

// TestSessionIsNotCompleteBeforeItsApproval: a phase that ends while another is
// parked is the last to run, and yet the session is not complete.
func TestSessionIsNotCompleteBeforeItsApproval(t *testing.T) {
	t.Parallel()
	s := &stage{team: leaves(), course: session.Course{PauseAfter: []string{"left"}}}
	env := s.play(t, says(time.Hour, session.Answer{Request: "left.approval.1", Action: session.AnswerApprove}))
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, s.advanced, 2)
	for _, in := range s.advanced {
		require.False(t, in.Completes, "%s is not the session's end", in.Phase)
		require.Equal(t, in.Phase == "left", in.AwaitsApproval)
	}
	require.Equal(t, []session.State{session.Running}, s.marked)
	require.Len(t, s.closed, 1)
	require.Equal(t, session.Completed, s.closed[0].Status.Status)
}

// TestCancellingASessionIsNoApproval: to reject is not to approve.
func TestCancellingASessionIsNoApproval(t *testing.T) {
	t.Parallel()
	s := &stage{team: leaves(), course: session.Course{PauseAfter: []string{"left", "right"}}}
	env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(env.CancelWorkflow, time.Hour)
	})
	require.True(t, temporal.IsCanceledError(env.GetWorkflowError()), "%v", env.GetWorkflowError())
	require.Equal(t, session.WasCancelled, s.closed[0].Status.Status)
	require.Empty(t, s.marked)
}

// TestAnAnswerIsStoredBeforeTheNextPhaseStarts: the next phase starts from the checkpoint that has the answer, because a worker
// may be lost between the two.
func TestAnAnswerIsStoredBeforeTheNextPhaseStarts(t *testing.T) {
	t.Parallel()
	team := leaves()
	team.Phases[1].Needs = []string{"left"}
	s := &stage{team: team, course: session.Course{PauseAfter: []string{"left"}}}
	env := s.play(t, says(time.Hour, session.Answer{Request: "left.approval.1", Action: session.AnswerApprove}))
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, []string{"left/a.1", "right/b.1"}, s.order())
	require.EqualValues(t, "head-left.approval.1-default-", s.rounds[1].Head)
}
