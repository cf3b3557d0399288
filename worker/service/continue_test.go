package service_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
	"github.com/maestro-hive/maestro/workflows"
)

// TestSessionOverManyRuns has a session continue as new again and again, with a request for
// help and one for an approval that were opened in the first run and are answered in later
// ones, while others send answers that nobody awaits.
func TestSessionOverManyRuns(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	work := `brief=$(cat); phase=$(echo "$brief" | tr -d ' \n' | sed 's/.*"phase":"\([^"]*\)".*/\1/'); echo $phase >> ` + log + `; echo $phase > $phase.txt; `
	s := newStandIn(t, agent.Config{Agents: map[string]agent.Definition{
		"a": shell(work + `echo "$brief" | grep -q 'use the other port'`), "b": shell(work),
	}}, nil, os.Getenv, "--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=40")
	tm := short(spec.Phase{Name: "help", Needs: []string{}, Personas: []string{"dev"}},
		spec.Phase{Name: "approval", Needs: []string{}, Personas: []string{"other"}, Approve: spec.Approval{Count: 1}})
	const steps = 18
	last := spec.Phase{Name: "last", Needs: []string{"help", "approval"}, Personas: []string{"other"}}
	for n := range steps {
		p := spec.Phase{Name: fmt.Sprintf("step-%d", n), Needs: []string{}, Personas: []string{"other"}}
		if n > 0 {
			p.Needs = []string{fmt.Sprintf("step-%d", n-1)}
		}
		tm.Phases = append(tm.Phases, p)
		last.Needs = append(last.Needs, p.Name)
	}
	tm.Phases = append(tm.Phases, last)
	run := s.start("s", tm)
	first := run.GetRunID()

	over, stop := context.WithCancel(t.Context())
	stale := make(chan error, 1)
	go func() {
		var app *temporal.ApplicationError
		for over.Err() == nil {
			if _, err := s.answer("s", session.Answer{Request: "none", Action: session.AnswerRetry}); !errors.As(err, &app) || app.Type() != workflows.NotAwaited {
				stale <- err
				return
			}
		}
		stale <- nil
	}()
	inRun := func(n int) func() bool {
		return func() bool {
			e, err := s.store.State.Execution(t.Context(), s.key("s"))
			return err == nil && e.Run >= n
		}
	}
	require.Eventually(t, inRun(2), time.Minute, 5*time.Millisecond)
	second := s.execution("s").RunID
	_, err := s.answer("s", session.Answer{Request: "help.dev.1", Action: session.AnswerRetry, Note: "use the other port", By: "ann"})
	require.NoError(t, err)
	require.Eventually(t, inRun(3), time.Minute, 5*time.Millisecond)
	require.Equal(t, "approval.approval.1", s.asks("s").ID)
	stop()
	require.NoError(t, <-stale)
	_, err = s.client.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: "s", UpdateName: workflows.ApprovePhaseUpdate, Args: []any{workflows.ApprovePhase{Phase: "approval", By: "ann"}}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	require.NoError(t, err)

	var result workflows.SessionResult
	require.NoError(t, run.Get(t.Context(), &result), "who waits for the first run has the result of the last one")
	e := s.execution("s")
	require.Equal(t, session.Completed, e.Status.Status)
	require.GreaterOrEqual(t, e.Run, 4)
	require.Empty(t, e.Help)
	require.Equal(t, e.Checkpoint, result.Checkpoint)
	worked, err := os.ReadFile(log)
	require.NoError(t, err)
	count := map[string]int{}
	for _, phase := range strings.Fields(string(worked)) {
		count[phase]++
	}
	require.Equal(t, 2, count["help"])
	delete(count, "help")
	require.Len(t, count, steps+2)
	for phase, n := range count {
		require.Equal(t, 1, n, phase)
	}
	for _, p := range e.Phases {
		require.Equal(t, session.Completed, p.Status, p.Name)
	}
	require.Equal(t, 2, e.Phases[0].Assignments[0].Rounds)

	described, err := s.client.DescribeWorkflowExecution(t.Context(), "s", "")
	require.NoError(t, err)
	info := described.GetWorkflowExecutionInfo()
	require.Equal(t, e.RunID, info.GetExecution().GetRunId())
	require.Equal(t, first, info.GetFirstRunId())
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, info.GetStatus())
	require.Less(t, info.GetHistoryLength(), int64(150))
	temporaltest.KeepHistory(t.Context(), t, s.client, "s", second, *histories)
}
