package service_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/sandbox/workdir"
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

// TestProcessesOfALostAttemptAreEnded before another one begins: a process that the agent of a killed worker has left
// is in the assignment's directories.
func TestProcessesOfALostAttemptAreEnded(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Isolation: agent.IsolationNone, Agents: shells(map[string]string{"a": "true"})}, standOptions{})
	dirs := workdir.New(workdir.Options{Root: workdir.DefaultRoot(s.store.Dir())})
	dir, err := dirs.Make(s.key(sessionID), spec.AssignmentID{Phase: "one", Persona: "a"})
	require.NoError(t, err)
	left := exec.Command("sleep", "60")
	left.Env = []string{"HOME=" + dir.Home}
	require.NoError(t, left.Start())
	_, err = s.ends(s.start(sessionID, team(phase("one", "a"))))
	require.NoError(t, err)
	require.EqualError(t, left.Wait(), "signal: killed")
}
