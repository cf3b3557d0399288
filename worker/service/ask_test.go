package service_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/workflows"
)

// short is a team that gives up at once, and asks.
func short(phases ...spec.Phase) spec.Team {
	return spec.Team{
		Version: 1, Name: "t", Personas: map[string]spec.Persona{"dev": {Role: "d", Agent: "a", Instructions: "do"}, "other": {Role: "o", Agent: "b", Instructions: "do"}},
		Phases: phases, Retry: spec.Retry{Attempts: 1, Rounds: 1},
	}
}

// asks waits until a session has exactly one open request, and returns it.
func (s *stand) asks(sessionID string) session.Request {
	s.t.Helper()
	var h session.Request
	require.Eventually(s.t, func() bool {
		e, err := s.store.State.Execution(s.t.Context(), s.key(sessionID))
		if err != nil || len(e.Help) != 1 {
			return false
		}
		h = e.Help[0]
		return true
	}, time.Minute, 20*time.Millisecond)
	return h
}

// answer sends an answer as an update.
func (s *stand) answer(sessionID string, a session.Answer) (out session.Answer, err error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	handle, err := s.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: sessionID, UpdateName: workflows.ResolveUpdate, Args: []any{a}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return out, err
	}
	return out, handle.Get(ctx, &out)
}

// files stores files as a manifest.
func (s *stand) files(files map[string]string) spec.Digest {
	s.t.Helper()
	m := cas.Manifest{}
	for path, content := range files {
		blob, err := s.store.Content.PutBlob(s.t.Context(), []byte(content))
		require.NoError(s.t, err)
		m[path] = cas.Entry{SHA256: blob, Size: int64(len(content))}
	}
	manifest, err := s.store.Content.PutManifest(s.t.Context(), m)
	require.NoError(s.t, err)
	return manifest
}

// head is the newest checkpoint of a session.
func (s *stand) head(sessionID string) session.Checkpoint {
	s.t.Helper()
	c, err := s.store.Checkpoint(s.t.Context(), s.execution(sessionID).Checkpoint)
	require.NoError(s.t, err)
	return c
}

// needsNote is an agent that does its work only once a person has told it how.
func needsNote() agent.Definition {
	return shell(`cat > brief.json
		if grep -q 'use the other port' brief.json; then echo ok > work.txt; rm brief.json; exit 0; fi
		echo '{"usage":{"output_tokens":7}}' > $MAESTRO_RESULT
		echo 'port 8080 is taken' >&2; exit 1`)
}

func TestRetryGoesOnWithTheNote(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"a": needsNote()}})
	run := s.start("s", short(spec.Phase{Name: "one", Personas: []string{"dev"}, Produces: []string{"work.txt"}}))
	h := s.asks("s")
	require.Equal(t, "one.dev.1", h.ID)
	require.Equal(t, session.ForHelp, h.Kind)
	require.Contains(t, h.Command, "maestro resolve s retry --request one.dev.1")
	require.Len(t, h.Attempts, 1)
	require.WithinDuration(t, time.Now().Add(7*24*time.Hour), h.Until, time.Hour)
	e := s.execution("s")
	require.Equal(t, session.HelpIsNeeded, e.Status.Status)
	require.Equal(t, int64(7), e.Usage.Tokens())

	for want, wrong := range map[string]session.Answer{
		"request \"one.dev.2\" is not open; open requests: one.dev.1 (retry": {Request: "one.dev.2", Action: session.AnswerRetry},
		"the answer is empty; open requests: one.dev.1":                      {},
		"request \"\" is not open":                                           {Action: session.AnswerRetry},
		"cannot be answered with action \"approve\"":                         {Request: h.ID, Action: session.AnswerApprove},
		"cannot be answered with action \"again\"; it takes retry":           {Request: h.ID, Action: "again"},
		"files: missing manifest":                                            {Request: h.ID, Action: session.AnswerSupply},
	} {
		_, err := s.answer("s", wrong)
		require.ErrorContains(t, err, want)
	}
	said, err := s.answer("s", session.Answer{Request: h.ID, Action: session.AnswerRetry, Note: "use the other port", By: "ada"})
	require.NoError(t, err)
	require.Equal(t, "dev", said.Persona)
	_, err = s.answer("s", session.Answer{Request: h.ID, Action: session.AnswerRetry})
	require.Error(t, err, "a repeated answer")

	var result workflows.SessionResult
	require.NoError(t, run.Get(t.Context(), &result))
	s.keepHistory(run)
	e = s.execution("s")
	require.Equal(t, session.Completed, e.Status.Status)
	require.Empty(t, e.Help)
	a := e.Assignment(spec.AssignmentID{Phase: "one", Persona: "dev"})
	require.Equal(t, 2, a.Rounds)
	require.Equal(t, 2, a.Attempts)
	require.Equal(t, map[string]string{"work.txt": "ok\n"}, s.tree("s"))
	kept := s.head("s").Answers
	require.Len(t, kept, 1)
	require.Equal(t, "ada", kept[0].By)
	require.Equal(t, "use the other port", kept[0].Note)
	require.False(t, kept[0].At.IsZero())
}

func TestIndependentBranchesGoOnWhileOneWaits(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"a": needsNote(), "b": shell("cat > /dev/null; echo b > $RANDOM.txt")}})
	run := s.start("s", short(
		spec.Phase{Name: "stuck", Personas: []string{"dev"}, Needs: []string{}},
		spec.Phase{Name: "free", Personas: []string{"other"}, Needs: []string{}},
		spec.Phase{Name: "after-free", Personas: []string{"other"}, Needs: []string{"free"}},
		spec.Phase{Name: "joined", Personas: []string{"other"}, Needs: []string{"stuck", "after-free"}},
	))
	h := s.asks("s")
	require.Eventually(t, func() bool {
		e := s.execution("s")
		return e.Phases[2].Status == session.Completed && e.Phases[3].Status == session.Pending && e.Status.Status == session.HelpIsNeeded
	}, time.Minute, 20*time.Millisecond)
	require.NoError(t, s.client.SignalWorkflow(t.Context(), "s", "", workflows.ResolveUpdate, session.Answer{Request: h.ID, Action: session.AnswerRetry, Note: "use the other port"}))
	require.NoError(t, run.Get(t.Context(), nil))
	require.Equal(t, session.Completed, s.execution("s").Phases[3].Status)
}

func TestSkipGoesOnWithoutTheWork(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"a": needsNote(), "b": shell("cat > brief.json")}})
	run := s.start("s", short(
		spec.Phase{Name: "one", Personas: []string{"dev"}, Produces: []string{"work.txt"}}, spec.Phase{Name: "two", Personas: []string{"other"}},
	))
	_, err := s.answer("s", session.Answer{Request: s.asks("s").ID, Action: session.AnswerSkip, By: "ada"})
	require.NoError(t, err)
	require.NoError(t, run.Get(t.Context(), nil))
	s.keepHistory(run)
	e := s.execution("s")
	require.Equal(t, session.Completed, e.Status.Status)
	require.Equal(t, session.Skipped, e.Phases[0].Status)
	require.Equal(t, session.Skipped, e.Phases[0].Assignments[0].Status)
	require.NotContains(t, s.tree("s"), "work.txt")
}

func TestAbortEndsTheSession(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"a": needsNote()}})
	run := s.start("s", short(spec.Phase{Name: "one", Personas: []string{"dev"}}))
	_, err := s.answer("s", session.Answer{Request: s.asks("s").ID, Action: session.AnswerAbort, By: "ada", Note: "not worth it"})
	require.NoError(t, err)
	require.ErrorContains(t, run.Get(t.Context(), nil), "one/dev needs help")
	s.keepHistory(run)
	e := s.execution("s")
	require.Equal(t, session.Failed, e.Status.Status)
	require.Contains(t, e.Reason, "(aborted by ada: not worth it)")
	require.Equal(t, session.Failed, e.Phases[0].Status)
	require.Equal(t, session.AnswerAbort, s.head("s").Answers[0].Action)
}

func TestNobodyAnswersInTime(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"a": needsNote()}})
	tm := short(spec.Phase{Name: "one", Personas: []string{"dev"}})
	tm.Help.GiveUpAfter = textfmt.Duration(2 * time.Second)
	run := s.start("s", tm)
	require.ErrorContains(t, run.Get(t.Context(), nil), "(no answer within 2s)")
	require.Equal(t, session.Failed, s.execution("s").Status.Status)
	require.Equal(t, "one.dev.1", s.execution("s").Help[0].ID)
}

func TestSuppliedFilesAreCheckedLikeAnAgents(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{
		Agents: map[string]agent.Definition{"a": needsNote(), "b": shell("cat > /dev/null; cat work.txt > copy.txt")},
		Checks: map[string]agent.CheckDefinition{"right": check("grep right work.txt")},
	})
	run := s.start("s", short(
		spec.Phase{Name: "one", Personas: []string{"dev"}, Produces: []string{"work.txt"}, Checks: []string{"right"}}, spec.Phase{Name: "two", Personas: []string{"other"}},
	))
	supply := func(content string) {
		_, err := s.answer("s", session.Answer{Request: s.asks("s").ID, Action: session.AnswerSupply, By: "ada", Files: s.files(map[string]string{"work.txt": content})})
		require.NoError(t, err)
	}
	supply("wrong\n")
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(s.execution("s").Help, func(h session.Request) bool { return h.ID == "one.dev.2" })
	},
		time.Minute, 20*time.Millisecond)
	require.Equal(t, failures.TestFailure, s.asks("s").Category)
	supply("right\n")
	require.NoError(t, run.Get(t.Context(), nil))
	s.keepHistory(run)
	e := s.execution("s")
	require.Equal(t, session.Supplied, e.Phases[0].Status)
	require.Equal(t, session.Supplied, e.Phases[0].Assignments[0].Status)
	require.Equal(t, "right\n", s.tree("s")["copy.txt"])
}

func TestApprovalHoldsBackWhatBuildsOnThePhase(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{
		"a": shell(`cat > brief.json
			if grep -q 'say hello' brief.json; then echo "$(cat work.txt) hello" > work.txt; else echo draft > work.txt; fi; rm brief.json`),
		"b": shell("cat > /dev/null; cp work.txt copy.txt"),
	}})
	run := s.start("s", short(spec.Phase{Name: "one", Personas: []string{"dev"}, Approve: spec.Approval{Count: 1}}, spec.Phase{Name: "two", Personas: []string{"other"}}))
	h := s.asks("s")
	require.Equal(t, "one.approval.1", h.ID)
	require.Equal(t, session.ForApproval, h.Kind)
	require.Contains(t, h.Command, "maestro approve s one")
	require.Eventually(t, func() bool { return s.execution("s").Status.Status == session.AwaitingApproval }, time.Minute, 20*time.Millisecond)
	_, err := s.answer("s", session.Answer{Request: h.ID, Action: session.AnswerReject})
	require.ErrorContains(t, err, "a rejection needs a note")
	_, err = s.answer("s", session.Answer{Request: h.ID, Action: session.AnswerReject, Note: "say hello", By: "ada"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { h = s.asks("s"); return h.ID == "one.approval.2" }, time.Minute, 20*time.Millisecond)
	e := s.execution("s")
	require.Equal(t, 2, e.Phases[0].Assignments[0].Rounds)
	require.Equal(t, session.Pending, e.Phases[1].Status)
	_, err = s.answer("s", session.Answer{Request: h.ID, Action: session.AnswerApprove, Note: "fine", By: "bob"})
	require.NoError(t, err)
	require.NoError(t, run.Get(t.Context(), nil))
	s.keepHistory(run)
	require.Equal(t, "draft hello\n", s.tree("s")["copy.txt"], "a rejected phase goes on from what it had left")
	c := s.head("s")
	require.Len(t, c.Answers, 2)
	require.Equal(t, []session.Action{session.AnswerReject, session.AnswerApprove}, []session.Action{c.Answers[0].Action, c.Answers[1].Action})
	require.Len(t, c.Reworks, 1)
	require.Equal(t, "ada", c.Reworks[0].By)
	require.Len(t, c.Reworks[0].Undone, 1, "both passes stay in the record")
	require.Empty(t, c.Reworks[0].Open)
}

// picky is a tester that sends the work back until it is good.
func picky() agent.Definition {
	return shell(`cat > /dev/null
		grep -q good work.txt && { echo tested > report.txt; exit 0; }
		echo '{"sends_back":{"reasons":["work.txt is not good"]},"usage":{"output_tokens":5}}' > $MAESTRO_RESULT`)
}

func TestWhatIsSentBackTakesItsBranchesAlong(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{
		"a": shell(`cat > brief.json
			case $(cat brief.json) in
			*'"phase":"docs"'*) rm brief.json; if grep -q good work.txt; then cp work.txt docs.txt; else sleep 60; fi; exit 0;;
			*'is not good'*) echo "$(cat work.txt) good" > work.txt;;
			*) echo first > work.txt;;
			esac
			rm brief.json; echo '{"usage":{"output_tokens":10}}' > $MAESTRO_RESULT`),
		"b": picky(),
	}})
	run := s.start("s", short(
		spec.Phase{Name: "one", Personas: []string{"dev"}},
		spec.Phase{Name: "docs", Personas: []string{"dev"}, Needs: []string{"one"}, Produces: []string{"docs.txt"}},
		spec.Phase{Name: "two", Personas: []string{"other"}, Needs: []string{"one"}, Produces: []string{"report.txt"}, SendsBack: &spec.SendsBack{To: "one", Times: 2}},
		spec.Phase{Name: "end", Personas: []string{"other"}, Needs: []string{"docs", "two"}},
	))
	require.NoError(t, run.Get(t.Context(), nil))
	s.keepHistory(run)
	e := s.execution("s")
	require.Equal(t, "first good\n", s.tree("s")["docs.txt"], "what was at work on undone work is stopped, and begins again")
	require.Equal(t, []int{2, 2, 2, 1}, []int{
		e.Phases[0].Assignments[0].Rounds, e.Phases[1].Assignments[0].Rounds, e.Phases[2].Assignments[0].Rounds, e.Phases[3].Assignments[0].Rounds,
	})
	require.Empty(t, e.Phases[1].Assignments[0].Failures)
}

func TestWorkIsSentBackAsOftenAsItMay(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{
		"a": shell(`cat > brief.json
			if grep -q 'make it good' brief.json; then echo good > work.txt; else echo "$(cat work.txt) more" > work.txt; fi; rm brief.json
			echo '{"usage":{"output_tokens":10}}' > $MAESTRO_RESULT`),
		"b": picky(),
	}})
	run := s.start("s", short(
		spec.Phase{Name: "one", Personas: []string{"dev"}}, spec.Phase{Name: "mid", Personas: []string{"dev"}},
		spec.Phase{Name: "two", Personas: []string{"other"}, Produces: []string{"report.txt"}, SendsBack: &spec.SendsBack{To: "one", Times: 1}},
	))
	h := s.asks("s")
	require.Equal(t, failures.Rejected, h.Category)
	require.Contains(t, h.Message, "two/other sends the work of phase one back, which exceeds the limit of 1 times: work.txt is not good")
	e := s.execution("s")
	require.Equal(t, []int{2, 2, 2}, []int{e.Phases[0].Assignments[0].Rounds, e.Phases[1].Assignments[0].Rounds, e.Phases[2].Assignments[0].Rounds})
	require.Equal(t, int64(50), e.Usage.Tokens(), "both passes are paid for")
	_, err := s.answer("s", session.Answer{Request: h.ID, Action: session.AnswerRetry, Note: "make it good", By: "ada"})
	require.NoError(t, err)
	require.NoError(t, run.Get(t.Context(), nil))
	s.keepHistory(run)
	require.Equal(t, "tested\n", s.tree("s")["report.txt"])
	require.Equal(t, int64(70), s.execution("s").Usage.Tokens())
	c := s.head("s")
	require.Len(t, c.Reworks, 2)
	require.Equal(t, spec.AssignmentID{Phase: "two", Persona: "other"}, c.Reworks[0].From)
	require.Len(t, c.Reworks[0].Undone, 3)
	require.Equal(t, c.Usage, s.execution("s").Usage)
}
