package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/workflows"
)

// events lists what people have heard of, in order.
func (s *stage) events() []session.Event {
	var all []session.Event
	for _, in := range s.told {
		all = append(all, in.Notice.Event)
	}
	return all
}

// TestNoticesOfAnsweredRequestsHaveNoCommands has a budget raised, which answers a request
// without a word to it.
func TestNoticesOfAnsweredRequestsHaveNoCommands(t *testing.T) {
	t.Parallel()
	s := &stage{team: patient(phase("build", "a")), webhook: true}
	s.team.Budget = spec.Budget{Tokens: 100, OnExceeded: spec.OnExceededAsk}
	s.round = func(activities.RoundInput) (session.RoundResult, error) {
		if len(s.rounds) == 1 {
			return session.RoundResult{}, spent()
		}
		return session.RoundResult{}, nil
	}
	env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		raises(env, spec.Cap{Tokens: 1000})
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(workflows.RaiseUpdate, workflows.Raise{Tokens: 900}) }, time.Hour)
	})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, []session.Event{session.HelpAsked, session.RequestClosed, session.SessionCompleted}, s.events())
	name := s.told[0].Notice.Session
	require.Contains(t, s.told[0].Notice.Commands, "maestro resolve "+name+" skip --request build.a.1-default-")
	for _, in := range s.told[1:] {
		require.Equal(t, []string{"maestro status " + name, "maestro artifacts list " + name}, in.Notice.Commands)
	}
}

// TestWithdrawnRequestsAreNotified has work sent back whose approval is awaited.
func TestWithdrawnRequestsAreNotified(t *testing.T) {
	t.Parallel()
	tm := patient(phase("one", "a"), phase("two", "b"), phase("docs", "c"))
	tm.Phases[1].SendsBack, tm.Phases[2].Needs, tm.Phases[2].Approve = &spec.SendsBack{To: "one", Times: 1}, []string{"one"},
		spec.Approval{Count: 1}
	asked := make(chan struct{})
	s := &stage{team: tm, webhook: true}
	s.round = func(in activities.RoundInput) (session.RoundResult, error) {
		if in.Persona == "b" && in.Rework == nil {
			<-asked
			return sendingBack(in, "no"), nil
		}
		return session.RoundResult{}, nil
	}
	s.onAdvance = func(in activities.AdvanceInput) {
		if in.Phase == "docs" && len(s.advanced) == 2 {
			close(asked)
		}
	}
	env := s.play(t, says(time.Hour, session.Answer{Request: "docs.approval.2", Action: session.AnswerApprove}))
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, []session.Event{
		session.ApprovalAsked, session.RequestClosed, session.ApprovalAsked, session.RequestClosed,
		session.SessionCompleted,
	}, s.events())
	require.Nil(t, s.told[1].Notice.Answer)
	require.Equal(t, "docs.approval.1-default-", s.told[1].Notice.Request.ID)
}

// TestEndOfTheSessionIsNotifiedToTheTicketsOfRequests has a session end while its ticket is
// being told that it waits.
func TestEndOfTheSessionIsNotifiedToTheTicketsOfRequests(t *testing.T) {
	t.Parallel()
	s := &stage{team: patient(phase("build", "a"))}
	s.team.Help.Jira = &spec.HelpJira{Project: "MD"}
	s.round = func(activities.RoundInput) (session.RoundResult, error) {
		return session.RoundResult{}, failedRound(failures.Auth, "no key")
	}
	s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		ending := make(chan struct{}) // the session waits, for a minute at most, until people are told of its end
		env.SetOnTimerScheduledListener(func(_ string, d time.Duration) {
			if d == time.Minute {
				close(ending)
			}
		})
		s.telling = func(in activities.NotifyInput) {
			if in.Notice.Event == session.HelpAsked {
				resolve(env, session.Answer{Request: "build.a.1", Action: session.AnswerAbort})
				<-ending
			}
		}
	})
	require.Equal(t, []session.Event{session.HelpAsked, session.SessionFailed}, s.events())
	require.Equal(t, []string{"of build"}, s.told[1].Fingerprints)
}

// TestRetryWithoutANoteLeavesWhatWasSaid has a person continue after a budget, too.
func TestRetryWithoutANoteLeavesWhatWasSaid(t *testing.T) {
	t.Parallel()
	s := &stage{team: patient(phase("build", "a"))}
	s.team.Budget = spec.Budget{Tokens: 100, OnExceeded: spec.OnExceededAsk}
	ends := []error{failedRound(failures.TestFailure, "red"), spent(), nil}
	s.round = func(activities.RoundInput) (session.RoundResult, error) {
		return session.RoundResult{}, ends[len(s.rounds)-1]
	}
	env := s.play(t, says(time.Hour, session.Answer{Request: "build.a.1", Action: session.AnswerRetry, Note: "make it green"}),
		says(2*time.Hour, session.Answer{Request: "build.a.2", Action: session.AnswerRetry}))
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, "make it green", s.rounds[2].Note)
}
