package service_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
	"github.com/maestro-hive/maestro/workflows"
)

// writer is a model that writes a file of its phase in the first turn and
// finishes in the second.
func writer(r providertest.Request) providertest.Reply {
	usage := cost.Usage{InputTokens: 100, OutputTokens: 10}
	if r.Turn() > 1 {
		return providertest.Reply{Usage: usage, Calls: []providertest.Call{{Name: "finish", Arguments: `{"summary":"done"}`}}}
	}
	return providertest.Reply{Usage: usage, Calls: []providertest.Call{
		{Name: "write", Arguments: fmt.Sprintf(`{"path":"file-%d.txt","content":"text\n"}`, r.N)},
	}}
}

// TestResetSessionPaysForNothingAgain resets a completed session to its beginning:
// its assignments go through the answers that are stored.
func TestResetSessionPaysForNothingAgain(t *testing.T) {
	t.Parallel()
	for format, path := range map[wire.API]string{wire.Anthropic: "", wire.OpenAI: "/v1"} {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			provider := providertest.New(t, writer)
			s := newStand(t, agent.Config{
				Agents: map[string]agent.Definition{"a": model()},
				Providers: map[string]agent.Provider{"p": {
					Format: format, BaseURL: provider.URL() + path, Models: map[string]cost.Prices{"m": {Input: 3e9, Output: 15e9}},
				}},
			})
			result, err := s.run("s", threeSteps(spec.Budget{Tokens: 100000}))
			require.NoError(t, err)
			require.Equal(t, 6, provider.Count())
			paid := cost.Usage{InputTokens: 600, OutputTokens: 60, CostUSD: 6*300000 + 6*150000}
			require.Equal(t, paid, result.Usage)
			tree := s.tree("s")

			run := s.reset("s")
			require.NoError(t, s.client.GetWorkflow(t.Context(), "s", run).Get(t.Context(), &result))
			require.Equal(t, 6, provider.Count(), "no call is made again")
			require.Equal(t, paid, result.Usage, "and none is counted again")
			require.Equal(t, tree, s.tree("s"))
			account := s.account("s")
			require.Equal(t, paid, account.Usage())
		})
	}
}

// reset has a session begin again from its first workflow task.
func (s *stand) reset(session string) (run string) {
	s.t.Helper()
	return s.resetTo(session, "", s.firstTask(session))
}

// resetTo has a session begin again from where one of its runs, or the last, was when a
// workflow task ended.
func (s *stand) resetTo(session, of string, task int64) (run string) {
	s.t.Helper()
	answer, err := s.client.ResetWorkflowExecution(s.t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: s.namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: session, RunId: of}, Reason: "a test",
		WorkflowTaskFinishEventId: task, RequestId: fmt.Sprintf("%s-reset-%d", session, task),
	})
	require.NoError(s.t, err)
	return answer.GetRunId()
}

// firstTask is the event with which the session's first workflow task has ended.
func (s *stand) firstTask(session string) int64 {
	s.t.Helper()
	events := s.client.GetWorkflowHistory(s.t.Context(), session, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(s.t, err)
		if event.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			return event.GetEventId()
		}
	}
	s.t.Fatal("no workflow task was ever completed")
	return 0
}

// TestResumeAsksOnlyWhatNobodyHasAsked resumes a session in the middle of a
// conversation three times: after it was cancelled, after it has failed by its
// own fault, and with force.
func TestResumeAsksOnlyWhatNobodyHasAsked(t *testing.T) {
	t.Parallel()
	arrived, stuck := make(chan struct{}), make(chan struct{})
	var poor, held atomic.Bool
	provider := providertest.New(t, func(r providertest.Request) providertest.Reply {
		usage := cost.Usage{InputTokens: 100, OutputTokens: 10}
		if r.Turn() == 3 {
			if held.CompareAndSwap(false, true) { // the first one is never answered
				close(arrived)
				<-stuck
			}
			return providertest.Reply{Usage: usage, Calls: []providertest.Call{{Name: "finish", Arguments: `{"summary":"done"}`}}}
		}
		text := "good"
		if poor.Load() {
			text = "bad"
		}
		return providertest.Reply{Usage: usage, Calls: []providertest.Call{
			{Name: "write", Arguments: fmt.Sprintf(`{"path":"turn-%d.txt","content":"%s\n"}`, r.Turn(), text)},
		}}
	})
	t.Cleanup(func() { close(stuck) })
	s := newStand(t, agent.Config{
		Agents: map[string]agent.Definition{"coder": model()}, Providers: served(wire.Anthropic, provider.URL()),
		Checks: map[string]agent.CheckDefinition{"good": {Argv: []string{"sh", "-c", "! grep -q bad turn-*.txt"}}},
	})
	tm := oneStep()
	tm.Phases[0].Checks = []string{"good"}
	again := func(run int, force ...string) error {
		_, err := s.run("s", tm, func(in *workflows.SessionInput) {
			in.Base, in.Run, in.Course.Force = s.execution("s").Checkpoint, run, force
		})
		return err
	}
	run := s.start("s", tm)
	<-arrived
	require.NoError(t, s.client.CancelWorkflow(t.Context(), "s", ""))
	require.ErrorContains(t, run.Get(t.Context(), nil), "canceled")
	require.Equal(t, 3, provider.Count())
	require.Equal(t, int64(220), s.execution("s").Usage.Tokens(), "the call under way is unsettled")

	require.NoError(t, again(2))
	require.Equal(t, 4, provider.Count(), "only the call that nobody has answered is made")
	require.Equal(t, int64(330), s.execution("s").Usage.Tokens())

	poor.Store(true)
	require.ErrorContains(t, again(3, "build"), "check good failed")
	require.Equal(t, 7, provider.Count(), "force begins a new epoch")
	poor.Store(false)
	require.NoError(t, again(4))
	require.Equal(t, 10, provider.Count(), "bad answers are not taken for good again")
	require.Equal(t, int64(990), s.execution("s").Usage.Tokens(), "all that was paid for is counted, once")
}

// TestResetGoesThroughFailuresForNothing resets a session whose first attempt has
// failed a check that never says the same twice.
func TestResetGoesThroughFailuresForNothing(t *testing.T) {
	t.Parallel()
	provider := providertest.New(t, func(r providertest.Request) providertest.Reply {
		usage := cost.Usage{InputTokens: 100, OutputTokens: 10}
		if r.Turn() > 1 {
			return providertest.Reply{Usage: usage, Calls: []providertest.Call{{Name: "finish", Arguments: `{"summary":"done"}`}}}
		}
		text := "bad"
		if strings.Contains(r.Messages[0].Text, "test_failure") {
			text = "good"
		}
		return providertest.Reply{Usage: usage, Calls: []providertest.Call{
			{Name: "write", Arguments: fmt.Sprintf(`{"path":"a.txt","content":"%s\n"}`, text)},
		}}
	})
	s := newStand(t, agent.Config{
		Agents: map[string]agent.Definition{"coder": model()}, Providers: served(wire.Anthropic, provider.URL()),
		Checks: map[string]agent.CheckDefinition{"good": {Argv: []string{"sh", "-c", "date +%s%N; grep good a.txt"}}},
	})
	tm := oneStep()
	tm.Phases[0].Checks = []string{"good"}
	tm.Retry = spec.Retry{Attempts: 2, Rounds: 1, Initial: textfmt.Duration(10 * time.Millisecond)}
	_, err := s.run("s", tm)
	require.NoError(t, err)
	require.Equal(t, 4, provider.Count())

	run := s.reset("s")
	var result workflows.SessionResult
	require.NoError(t, s.client.GetWorkflow(t.Context(), "s", run).Get(t.Context(), &result))
	require.Equal(t, 4, provider.Count(), "both attempts are gone through again, and nothing is asked")
	require.Equal(t, int64(440), result.Usage.Tokens())
	require.Equal(t, map[string]string{"a.txt": "good\n"}, s.tree("s"))
}
