package service_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
	"github.com/maestro-hive/maestro/workflows"
)

// TestResetReplaysNoAnswer resets a session that a person has helped, to where it waited for
// the person and to its beginning: it waits again, under another request id, and pays for nothing
// that was paid for.
func TestResetReplaysNoAnswer(t *testing.T) {
	t.Parallel()
	provider := providertest.New(t, func(r providertest.Request) providertest.Reply {
		usage := cost.Usage{InputTokens: 100, OutputTokens: 10}
		if r.Turn() > 1 {
			return providertest.Reply{Usage: usage, Calls: []providertest.Call{{Name: "finish", Arguments: `{"summary":"done"}`}}}
		}
		text := "bad"
		if strings.Contains(r.Messages[0].Text, "write it well") {
			text = "good"
		}
		return providertest.Reply{
			Usage: usage,
			Calls: []providertest.Call{providertest.Tool("write", map[string]string{"path": "a.txt", "content": text})},
		}
	})
	s := newStand(t, agent.Config{
		Agents:    map[string]agent.Definition{"a": {Kind: agent.KindModel, Provider: "p", Model: "m"}},
		Providers: map[string]agent.Provider{"p": {Format: wire.Anthropic, BaseURL: provider.URL()}},
		Checks:    map[string]agent.CheckDefinition{"check": check("grep good a.txt")},
	}, standOptions{})
	run := s.start(sessionID, team(checked(phase("one", "a"))))
	first := s.answers(session.AnswerRetry, "write it well")
	require.NoError(t, run.Get(t.Context(), nil))
	require.Equal(t, 4, provider.Count())

	seen := map[string]bool{first.ID: true}
	beginning, waiting := s.tasks(run.GetRunID())
	for _, at := range []int64{waiting, beginning} {
		answer, err := s.client.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
			Namespace: s.namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: sessionID, RunId: run.GetRunID()},
			Reason:                    "a test",
			WorkflowTaskFinishEventId: at, RequestId: fmt.Sprint("reset-", at),
		})
		require.NoError(t, err)
		again := answer.GetRunId()
		s.shows("it waits again", func(e session.Execution) bool {
			return e.RunID == again && len(e.Help) == 1 && e.Status.Status == session.HelpIsNeeded && e.ClosedAt == nil
		})
		require.ErrorContains(t, s.update(workflows.ResolveUpdate, session.Answer{Request: first.ID, Action: session.AnswerRetry}),
			"is not open")
		require.Equal(t, 4, provider.Count(), "waiting, and the failure before it, cost nothing")
		asked := s.answers(session.AnswerRetry, "write it well")
		require.False(t, seen[asked.ID], "another id than %v: %s", seen, asked.ID)
		seen[asked.ID] = true
		var result workflows.SessionResult
		require.NoError(t, s.client.GetWorkflow(t.Context(), sessionID, again).Get(t.Context(), &result))
		require.Equal(t, 4, provider.Count(), "what the helped attempt has asked is stored, too")
		require.Equal(t, int64(440), result.Usage.Tokens())
	}
}

// tasks are a run's first workflow task, and the last one before a person's answer.
func (s *stand) tasks(run string) (first, waiting int64) {
	s.t.Helper()
	events := s.client.GetWorkflowHistory(s.t.Context(), sessionID, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	var completed []int64
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(s.t, err)
		if event.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			completed = append(completed, event.GetEventId())
		}
		if event.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED {
			return completed[0], completed[len(completed)-2] // the last one has accepted the answer
		}
	}
	require.Fail(s.t, "nobody has answered")
	return 0, 0
}

// TestPausedRoundGoesOn: pausing a round in Temporal ends its agent, and going on
// neither counts a failed attempt nor a lost worker.
func TestPausedRoundGoesOn(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: shells(map[string]string{
		"a": `touch $dir/begun; until test -e $dir/again; do sleep 0.05; done; echo done > a.txt`,
	})}, standOptions{})
	run := s.start(sessionID, team(phase("one", "a")))
	s.eventually("the agent works", func() bool { return s.exists("begun") })
	started := func() bool {
		stored, err := s.store.State.Record(t.Context(),
			state.Assignment{Key: s.key(sessionID), AssignmentID: spec.AssignmentID{Phase: "one", Persona: "a"}})
		return err == nil && len(stored.Rounds) > 0 && stored.Rounds[0].AtWork
	}
	require.True(t, started())
	described, err := s.client.DescribeWorkflowExecution(t.Context(), sessionID, "")
	require.NoError(t, err)
	require.Len(t, described.GetPendingActivities(), 1)
	activity := described.GetPendingActivities()[0].GetActivityId()
	at := &commonpb.WorkflowExecution{WorkflowId: sessionID}
	_, err = s.client.WorkflowService().PauseActivity(t.Context(), &workflowservice.PauseActivityRequest{
		Namespace: s.namespace, Execution: at, Activity: &workflowservice.PauseActivityRequest_Id{Id: activity},
	})
	require.NoError(t, err)
	s.eventually("the round is paused", func() bool { return !started() })
	s.touch("again")
	_, err = s.client.WorkflowService().UnpauseActivity(t.Context(), &workflowservice.UnpauseActivityRequest{
		Namespace: s.namespace, Execution: at, Activity: &workflowservice.UnpauseActivityRequest_Id{Id: activity},
	})
	require.NoError(t, err)
	require.NoError(t, run.Get(t.Context(), nil))
	one := s.execution(sessionID).Phases[0].Assignments[0]
	require.Equal(t, session.Completed, one.Status)
	require.Equal(t, 1, one.Attempts)
	require.Zero(t, one.LostWorkers)
}
