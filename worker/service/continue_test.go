package service_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/workflows"
)

// TestSessionOverManyRuns has a session continue as new again and again, with a request for
// help and one for an approval that were opened in the first run and are answered in later
// ones, while others send answers that nobody awaits.
func TestSessionOverManyRuns(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: shells(map[string]string{"a": needsNote, "b": `true`})},
		standOptions{flags: []string{"--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=40"}})
	phases := []spec.Phase{branch("help", "a"), approved(branch("approval", "b")), branch("step-0", "b")}
	for n := range 17 {
		phases = append(phases, spec.Phase{
			Name: fmt.Sprintf("step-%d", n+1), Needs: []string{fmt.Sprintf("step-%d", n)},
			Personas: []string{"b"},
		})
	}
	run := s.start(sessionID, team(phases...))

	over, stop := context.WithCancel(t.Context())
	stale := make(chan error, 1)
	go func() {
		var app *temporal.ApplicationError
		for over.Err() == nil {
			err := s.update(workflows.ResolveUpdate, session.Answer{Request: "none", Action: session.AnswerRetry})
			if !errors.As(err, &app) || app.Type() != workflows.NotAwaited {
				stale <- err
				return
			}
		}
		stale <- nil
	}()
	reaches := func(n int) string {
		return s.shows("it continues as new", func(e session.Execution) bool { return e.Run >= n }).RunID
	}
	second := reaches(2)
	require.NoError(t, s.update(workflows.ResolveUpdate, session.Answer{
		Request: "help.a.1", Action: session.AnswerRetry,
		Note: "use the other port", By: "ann",
	}))
	reaches(3)
	require.Equal(t, "approval.approval.1", s.asks().ID)
	stop()
	require.NoError(t, <-stale)
	require.NoError(t, s.update(workflows.ResolveUpdate,
		session.Answer{Request: "approval.approval.1", Action: session.AnswerApprove, By: "ann"}))

	var result workflows.SessionResult
	require.NoError(t, run.Get(t.Context(), &result), "who waits for the first run has the result of the last one")
	e := s.execution(sessionID)
	require.Equal(t, session.Completed, e.Status.Status)
	require.GreaterOrEqual(t, e.Run, 4)
	require.Empty(t, e.Help)
	require.Equal(t, e.Checkpoint, result.Checkpoint)
	for n, p := range e.Phases {
		require.Equal(t, session.Completed, p.Status, p.Name)
		want := 1
		if n == 0 {
			want = 2 // the work that needed help
		}
		require.Equal(t, want, p.Assignments[0].Rounds, p.Name)
	}
	described, err := s.client.DescribeWorkflowExecution(t.Context(), sessionID, "")
	require.NoError(t, err)
	info := described.GetWorkflowExecutionInfo()
	require.Equal(t, e.RunID, info.GetExecution().GetRunId())
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, info.GetStatus())
	require.Less(t, info.GetHistoryLength(), int64(150))
	s.keepHistory(sessionID, second)
}
