package service_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
	"github.com/maestro-hive/maestro/workflows"
)

// told is a model that writes good files only once a person has told it to.
func told(r providertest.Request) providertest.Reply {
	usage := cost.Usage{InputTokens: 100, OutputTokens: 10}
	if r.Turn() > 1 {
		return providertest.Reply{Usage: usage, Calls: []providertest.Call{{Name: "finish", Arguments: `{"summary":"done"}`}}}
	}
	text := "bad"
	if strings.Contains(r.Messages[0].Text, "write it well") {
		text = "good"
	}
	return providertest.Reply{Usage: usage, Calls: []providertest.Call{{Name: "write", Arguments: fmt.Sprintf(`{"path":"a.txt","content":"%s\n"}`, text)}}}
}

// requests asks the workflow itself what it waits for.
func (s *stand) requests(sessionID, run string) []session.Request {
	value, err := s.client.QueryWorkflow(s.t.Context(), sessionID, run, workflows.StatusQuery)
	if err != nil {
		return nil
	}
	var status session.Status
	require.NoError(s.t, value.Get(&status))
	return status.Help
}

// TestResetReplaysNoAnswer resets a session that a person has helped, to its
// beginning and to where it had parked: it waits for a person again, under another
// request id, and pays for nothing that was paid for.
func TestResetReplaysNoAnswer(t *testing.T) {
	t.Parallel()
	provider := providertest.New(t, told)
	s := newStand(t, agent.Config{
		Agents: map[string]agent.Definition{"a": model()}, Providers: served(wire.Anthropic, provider.URL()),
		Checks: map[string]agent.CheckDefinition{"good": check("grep good a.txt")},
	})
	run := s.start("s", short(spec.Phase{Name: "one", Personas: []string{"dev"}, Checks: []string{"good"}}))
	first := s.asks("s")
	_, err := s.answer("s", session.Answer{Request: first.ID, Action: session.AnswerRetry, Note: "write it well", By: "ada"})
	require.NoError(t, err)
	require.NoError(t, run.Get(t.Context(), nil))
	require.Equal(t, 4, provider.Count())

	seen := map[string]bool{first.ID: true}
	for _, at := range []int64{s.parkedTask(run.GetRunID()), s.firstTask("s")} {
		again := s.resetTo("s", run.GetRunID(), at)
		var asked session.Request
		require.Eventually(t, func() bool {
			open := s.requests("s", again)
			if len(open) == 1 {
				asked = open[0]
			}
			return len(open) == 1
		}, time.Minute, 20*time.Millisecond)
		require.False(t, seen[asked.ID], "another id than %v: %s", seen, asked.ID)
		seen[asked.ID] = true
		require.Eventually(t, func() bool {
			e := s.execution("s")
			return e.RunID == again && len(e.Help) == 1 && e.Help[0].ID == asked.ID && e.Status.Status == session.HelpIsNeeded && e.ClosedAt == nil
		}, time.Minute, 20*time.Millisecond, "who asks the store finds it, too")
		_, err = s.answer("s", session.Answer{Request: first.ID, Action: session.AnswerRetry})
		require.ErrorContains(t, err, "is not open")
		require.Equal(t, 4, provider.Count(), "waiting, and the failure before it, cost nothing")
		_, err = s.answer("s", session.Answer{Request: asked.ID, Action: session.AnswerRetry, Note: "write it well", By: "ada"})
		require.NoError(t, err)
		var result workflows.SessionResult
		require.NoError(t, s.client.GetWorkflow(t.Context(), "s", again).Get(t.Context(), &result))
		require.Equal(t, 4, provider.Count(), "what the helped attempt has asked is stored, too")
		require.Equal(t, int64(440), result.Usage.Tokens())
	}
}

// parkedTask is the last workflow task before a person's answer.
func (s *stand) parkedTask(run string) (task int64) {
	s.t.Helper()
	events := s.client.GetWorkflowHistory(s.t.Context(), "s", run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	var before int64
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(s.t, err)
		if event.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			before, task = task, event.GetEventId()
		}
		if event.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED {
			return before // the last one has accepted the answer
		}
	}
	s.t.Fatal("nobody has answered")
	return 0
}

// worksOn reports whether session s is at work on an assignment that a run has ordered.
func (s *stand) worksOn(phase, persona string, run int) bool {
	r, err := s.store.State.Record(s.t.Context(), state.Assignment{Key: s.key("s"), AssignmentID: spec.AssignmentID{Phase: phase, Persona: persona}})
	return err == nil && len(r.Rounds) > 0 && r.Rounds[len(r.Rounds)-1].Run == run && r.Status().Status == session.Running
}

// TestResumeKeepsWhatPeopleHaveSaid ends a session while it waits for approval, and
// again in the middle of what was sent back, and continues in a new run.
func TestResumeKeepsWhatPeopleHaveSaid(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{
		"a": shell(`cat > brief.json
			if grep -q 'say hello' brief.json; then echo "$(cat work.txt) hello" > work.txt; [ -e hurry ] || sleep 60; else echo draft > work.txt; fi; rm -f brief.json`),
		"b": shell("cat > /dev/null; cp work.txt copy.txt"),
	}})
	tm := short(spec.Phase{Name: "one", Personas: []string{"dev"}, Approve: spec.Approval{Count: 1}}, spec.Phase{Name: "two", Personas: []string{"other"}})
	run := s.start("s", tm)
	s.asks("s")
	resume := func(n int) {
		require.NoError(t, s.client.CancelWorkflow(t.Context(), "s", ""))
		require.Error(t, run.Get(t.Context(), nil))
		run = s.start("s", tm, func(in *workflows.SessionInput) { in.Base, in.Run = s.execution("s").Checkpoint, n })
	}
	waits := func() (request string) {
		t.Helper()
		require.Eventually(t, func() bool {
			e := s.execution("s")
			waits := len(e.Help) == 1 && e.RunID == run.GetRunID() && e.Status.Status == session.AwaitingApproval
			if waits {
				request = e.Help[0].ID
			}
			return waits
		}, time.Minute, 20*time.Millisecond)
		return request
	}
	resume(2)
	request := waits()
	require.Equal(t, "one.approval.1-2", request)
	_, err := s.answer("s", session.Answer{Request: request, Action: session.AnswerReject, Note: "say hello", By: "ada"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.worksOn("one", "dev", 2) }, time.Minute, 20*time.Millisecond)
	resume(3)
	require.Eventually(t, func() bool { return s.worksOn("one", "dev", 3) }, time.Minute, 20*time.Millisecond)
	require.Equal(t, "say hello", s.head("s").Reworks[0].Reasons[0])
	require.Equal(t, []string{"one"}, s.head("s").Reworks[0].Open)

	resume(4) // the person's files stand for what takes too long
	require.NoError(t, s.client.CancelWorkflow(t.Context(), "s", ""))
	require.Error(t, run.Get(t.Context(), nil))
	run = s.start("s", tm, func(in *workflows.SessionInput) {
		in.Base, in.Run = s.execution("s").Checkpoint, 5
		in.Course.Supplied = []session.SuppliedWork{{Phase: "one", Files: s.files(map[string]string{"work.txt": "mine\n"})}}
	})
	request = waits()
	require.Empty(t, s.head("s").Reworks[0].Open)
	_, err = s.answer("s", session.Answer{Request: request, Action: session.AnswerApprove, By: "ada"})
	require.NoError(t, err)
	require.NoError(t, run.Get(t.Context(), nil))
	require.Equal(t, "mine\n", s.tree("s")["copy.txt"])

	run = s.start("s", tm, func(in *workflows.SessionInput) { in.Base, in.Run = s.execution("s").Checkpoint, 6 })
	require.NoError(t, run.Get(t.Context(), nil), "what is approved stays approved")
}

// TestResumeKeepsWhatWasSkipped ends a session after a person has skipped one of two
// personas, and while the other works.
func TestResumeKeepsWhatWasSkipped(t *testing.T) {
	t.Parallel()
	hurry := filepath.Join(t.TempDir(), "hurry")
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{
		"a": shell("cat > /dev/null; exit 1"), "b": shell("cat > /dev/null; echo b > b.txt; [ -e " + hurry + " ] || sleep 60"),
	}})
	tm := short(spec.Phase{Name: "one", Personas: []string{"dev", "other"}})
	run := s.start("s", tm)
	_, err := s.answer("s", session.Answer{Request: s.asks("s").ID, Action: session.AnswerSkip, By: "ada"})
	require.NoError(t, err)
	require.NoError(t, s.client.CancelWorkflow(t.Context(), "s", ""))
	require.Error(t, run.Get(t.Context(), nil))
	require.NoError(t, os.WriteFile(hurry, nil, 0o600))

	_, err = s.run("s", tm, func(in *workflows.SessionInput) { in.Base, in.Run = s.execution("s").Checkpoint, 2 })
	require.NoError(t, err)
	e := s.execution("s")
	require.Equal(t, session.Skipped, e.Phases[0].Assignments[0].Status)
	require.Equal(t, 1, e.Phases[0].Assignments[0].Attempts, "nobody has tried again")
	require.Equal(t, map[string]string{"b.txt": "b\n"}, s.tree("s"))
}
