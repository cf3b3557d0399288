package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/workflows"
)

// suggest has Temporal suggest to continue as new.
func suggest(env *testsuite.TestWorkflowEnvironment) {
	env.SetContinueAsNewSuggested(true)
	env.SignalWorkflow(workflows.TicketSignal, workflows.TicketNews{Request: "none"}) // a workflow task
}

// next is the input of the run that continues the session as new.
func next(t *testing.T, env *testsuite.TestWorkflowEnvironment) workflows.SessionInput {
	t.Helper()
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &again)
	var in workflows.SessionInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	return in
}

// TestContinuesAsNewWithOpenRequests has a session continue as new while it waits for help,
// for an approval, for a budget and for the next round of an assignment.
func TestContinuesAsNewWithOpenRequests(t *testing.T) {
	t.Parallel()
	tm := patient(phase("help", "a"), phase("approval", "b"), phase("money", "c"), phase("rounds", "d"), phase("last", "e"))
	for i := range 4 {
		tm.Phases[i].Needs = []string{}
	}
	tm.Phases[1].Approve = spec.Approval{Count: 1}
	tm.Phases[4].Needs = []string{"help", "approval", "money", "rounds"}
	tm.Budget = spec.Budget{Tokens: 100, OnExceeded: spec.OnExceededAsk}
	tm.Retry = spec.Retry{
		Attempts: 1, Rounds: 2, RoundInitial: textfmt.Duration(5 * time.Hour),
		RoundMax: textfmt.Duration(5 * time.Hour),
	}
	s := &stage{team: tm, webhook: true}
	s.round = func(in activities.RoundInput) (session.RoundResult, error) {
		switch {
		case in.Persona == "a":
			return session.RoundResult{}, failedRound(failures.Auth, "no key")
		case in.Persona == "c" && in.Seq == 1:
			return session.RoundResult{}, spent()
		case in.Persona == "d" && in.Round == 1:
			return session.RoundResult{}, failedRound(failures.TestFailure, "TestX fails")
		}
		return session.RoundResult{}, nil
	}
	first := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { suggest(env) }, time.Hour)
	})
	in := next(t, first)
	require.Equal(t, 2, in.Run)
	require.Equal(t, spec.Digest("head-approval"), in.Base)
	require.Empty(t, s.closed)
	require.ElementsMatch(t, []string{"help/a.1", "approval/b.1", "money/c.1", "rounds/d.1"}, s.order())
	var open []string
	for _, r := range in.Continued.Requests {
		require.True(t, r.Notified)
		open = append(open, r.ID)
	}
	require.ElementsMatch(t, []string{"help.a.1-default-", "approval.approval.1-default-", "money.c.1-default-"}, open)
	require.Len(t, s.told, 3)

	answer, approval := &reply{}, &reply{}
	second := s.playFrom(t, in, func(env *testsuite.TestWorkflowEnvironment) {
		env.SetStartTime(first.Now().Add(time.Hour))
		raises(env, spec.Cap{Tokens: 150})
		s.admitting = func() { // people do not wait for the new run's first checkpoint
			answer = resolve(env, session.Answer{Request: "help.a.1", Action: session.AnswerSkip, By: "ann"})
			approval = resolve(env, session.Answer{Request: "approval.approval.1", Action: session.AnswerApprove})
		}
		env.RegisterDelayedCallback(func() {
			got := status(t, env)
			require.Equal(t, []string{"money.c.1-default-"}, []string{got.Help[0].ID})
			require.Len(t, got.Help, 1)
			require.Equal(t, 2, got.Run)
			require.Equal(t, session.Completed, got.Phases[1].Status, "the approved phase was done by this session")
			env.SignalWorkflow(workflows.RaiseUpdate, workflows.Raise{Tokens: 50})
		}, time.Minute)
	})
	require.NoError(t, second.GetWorkflowError())
	require.NoError(t, answer.refused)
	require.NoError(t, answer.failed)
	require.NoError(t, approval.refused)
	require.Len(t, s.continued, 1)
	require.Equal(t, in.Base, s.continued[0].Base)
	require.Equal(t, []string{"money/c.1", "rounds/d.2", "last/e.1"}, s.order()[4:],
		"no assignment has more rounds than it had left")
	require.Equal(t, []int{0, 1, 3}, []int{s.rounds[4].Ordered, s.rounds[4].Round, s.rounds[4].Seq},
		"a later activity continues the round that the budget stopped")
	require.Equal(t, 4*time.Hour, second.Now().Sub(first.Now()).Round(time.Minute),
		"the wait between rounds ends when it would have, 5 h after the first one")
	events := map[session.Event]int{}
	for _, n := range s.told {
		events[n.Notice.Event]++
	}
	require.Equal(t, map[session.Event]int{
		session.HelpAsked: 2, session.ApprovalAsked: 1, session.RequestClosed: 3,
		session.SessionCompleted: 1,
	}, events)
	got := status(t, second)
	require.Equal(t, 2, got.Phases[3].Assignments[0].Rounds)
	require.Equal(t, session.Skipped, got.Phases[0].Assignments[0].Status)
}

// TestARunThatCannotContinueEndsItsSession: people are told, and the store knows that it has ended.
func TestARunThatCannotContinueEndsItsSession(t *testing.T) {
	t.Parallel()
	s := &stage{team: patient(phase("one", "a")), webhook: true}
	s.round = func(activities.RoundInput) (session.RoundResult, error) {
		return session.RoundResult{}, failedRound(failures.Auth, "no key")
	}
	in := next(t, s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { suggest(env) }, time.Hour)
	}))
	second := s.playFrom(t, in, func(env *testsuite.TestWorkflowEnvironment) {
		env.OnActivity(string(activities.AdmitName), mock.Anything, mock.Anything).
			Return(activities.Admission{}, temporal.NewNonRetryableApplicationError("the checkpoint is damaged",
				session.UnrecoverableError, nil))
	})
	require.ErrorContains(t, second.GetWorkflowError(), "the checkpoint is damaged")
	require.Len(t, s.closed, 1)
	require.Equal(t, session.Failed, s.closed[0].Status.Status)
	require.Equal(t, session.SessionFailed, s.told[len(s.told)-1].Notice.Event)
}

// TestAnswerBeforeContinuingAsNew has a person answer while the session only waits for the
// round at work, to continue as new: the next run applies the answer.
func TestAnswerBeforeContinuingAsNew(t *testing.T) {
	t.Parallel()
	tm := patient(phase("one", "a"), phase("two", "b"), phase("three", "c"))
	tm.Phases[1].Needs, tm.Phases[2].Needs = []string{}, []string{"two"}
	s := &stage{team: tm}
	answer := &reply{}
	var env *testsuite.TestWorkflowEnvironment
	s.round = func(in activities.RoundInput) (session.RoundResult, error) {
		switch {
		case in.Persona == "a" && in.Note == "":
			return session.RoundResult{}, failedRound(failures.Auth, "no key")
		case in.Persona == "b":
			until(t, env, func(now session.Status) bool { return len(now.Help) == 1 })
			asked := make(chan struct{})
			env.RegisterDelayedCallback(func() {
				suggest(env)
				answer = resolve(env, session.Answer{Request: "one.a.1", Action: session.AnswerRetry, Note: "there is one now", By: "ann"})
				close(asked)
			}, 0)
			<-asked
		}
		return session.RoundResult{}, nil
	}
	env = s.play(t, func(e *testsuite.TestWorkflowEnvironment) { env = e })
	in := next(t, env)
	require.NoError(t, answer.refused)
	require.NoError(t, answer.failed)
	require.ElementsMatch(t, []string{"one/a.1", "two/b.1"}, s.order(), "what was at work is finished, and nothing else begins")
	require.Len(t, s.advanced, 1)
	require.Equal(t, session.AnswerRetry, in.Continued.Requests[0].Answer.Action)

	env = s.playFrom(t, in)
	require.NoError(t, env.GetWorkflowError())
	require.ElementsMatch(t, []string{"one/a.1", "three/c.1"}, s.order()[2:])
	require.Equal(t, "there is one now", s.answers[0].Note)
}
