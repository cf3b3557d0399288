package workflows_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
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
			return session.RoundResult{}, spent("session")
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
	ends := []error{failedRound(failures.TestFailure, "red"), spent("session"), nil}
	s.round = func(activities.RoundInput) (session.RoundResult, error) {
		return session.RoundResult{}, ends[len(s.rounds)-1]
	}
	env := s.play(t, says(time.Hour, session.Answer{Request: "build.a.1", Action: session.AnswerRetry, Note: "make it green"}),
		says(2*time.Hour, session.Answer{Request: "build.a.2", Action: session.AnswerRetry}))
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, "make it green", s.rounds[2].Note)
}

// raised lists the alerts that people have been told of, each as its rule and request.
func (s *stage) raised() []string {
	var all []string
	for _, in := range s.told {
		if a := in.Notice.Alert; a != nil {
			all = append(all, a.Rule+" "+a.Request)
		}
	}
	return all
}

func hours(n int) textfmt.Duration { return textfmt.Duration(time.Duration(n) * time.Hour) }

// TestAlertsAboutWaitingAreRaisedOnceForEachRequest has a request wait for 4 h over a run that
// continues as new in the third, and another for 10 min.
func TestAlertsAboutWaitingAreRaisedOnceForEachRequest(t *testing.T) {
	t.Parallel()
	tm := patient(phase("one", "a"), phase("two", "b"))
	tm.Phases[0].Approve = spec.Approval{Count: 1}
	tm.Alerts = []spec.Alert{{Waiting: hours(3)}, {Waiting: hours(2)}, {Waiting: hours(1)}, {Waiting: hours(5)}, {Tokens: 1}}
	s := &stage{team: tm, webhook: true}
	s.round = func(in activities.RoundInput) (session.RoundResult, error) {
		if in.Persona == "b" && in.Note == "" {
			return session.RoundResult{}, failedRound(failures.Auth, "no key")
		}
		return session.RoundResult{}, nil
	}
	first := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { suggest(env) }, 150*time.Minute)
	})
	in := next(t, first)
	id := "one.approval.1-default-"
	require.Equal(t, []string{"tokens: 1 ", "waiting: 1h " + id, "waiting: 2h " + id}, s.raised())
	second := s.playFrom(t, in, func(env *testsuite.TestWorkflowEnvironment) {
		env.SetStartTime(first.Now())
		env.RegisterDelayedCallback(func() {
			resolve(env, session.Answer{Request: "one.approval.1", Action: session.AnswerApprove})
		}, 90*time.Minute)
		env.RegisterDelayedCallback(func() {
			resolve(env, session.Answer{Request: "two.b.1-2", Action: session.AnswerRetry, Note: "now"})
		}, 100*time.Minute)
	})
	require.NoError(t, second.GetWorkflowError())
	require.Equal(t, "waiting: 3h "+id, s.raised()[3], "at the time at which it would have been without a new run")
	require.Len(t, s.raised(), 4)
	got := status(t, second)
	require.Len(t, got.Alerts, 4)
	require.InDelta(t, 3*3600, got.Alerts[3].Value, 1)
	require.Contains(t, got.Alerts[3].Message, "has waited for 3h; the threshold is 3h")
}

// TestResumedSessionsDoNotRaiseAlertsAgain has a session that is admitted with an alert.
func TestResumedSessionsDoNotRaiseAlertsAgain(t *testing.T) {
	t.Parallel()
	s := &stage{team: newTeam(phase("one", "a")), webhook: true}
	s.team.Alerts = []spec.Alert{{Tokens: 50}, {Tokens: 60}}
	s.before = []session.Alert{{Rule: "tokens: 50"}}
	require.NoError(t, s.play(t).GetWorkflowError())
	require.Equal(t, []string{"tokens: 60 "}, s.raised())
}

// TestAlertsDoNotReplaceTheEndOfASession has the last round of a session raise an alert while the
// boundary of another phase is being written: the status of the end stays.
func TestAlertsDoNotReplaceTheEndOfASession(t *testing.T) {
	t.Parallel()
	s := &stage{team: newTeam(phase("one", "a"))}
	s.team.Alerts = []spec.Alert{{FailureRate: 1, Of: 2}}
	s.round = func(activities.RoundInput) (session.RoundResult, error) {
		return session.RoundResult{}, failedRound(failures.Auth, "no key")
	}
	s.writing = func(activities.WriteStatusInput) { require.Empty(t, s.closed) }
	env := s.play(t)
	require.Error(t, env.GetWorkflowError())
	require.Len(t, s.closed[0].Status.Alerts, 1)
	require.Empty(t, s.told, "nobody listens")
}

// TestAlertsAreRaisedExactlyWhenTheirThresholdsAreReached has sessions of random rules, costs and
// failures, which continue as new at some time: each alert is raised once, and only if the sums say so.
func TestAlertsAreRaisedExactlyWhenTheirThresholdsAreReached(t *testing.T) {
	t.Parallel()
	for seed := range uint64(130) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			tm := newTeam(phase("one", "a"), phase("two", "b"), phase("three", "c"))
			tm.Retry.Rounds = 4
			for range 1 + r.IntN(8) {
				switch rule := (spec.Alert{Tokens: 1 + r.Int64N(400)}); {
				case r.IntN(2) == 0 && !slices.Contains(tm.Alerts, rule):
					tm.Alerts = append(tm.Alerts, rule)
				case !slices.ContainsFunc(tm.Alerts, func(a spec.Alert) bool { return a.FailureRate > 0 }):
					tm.Alerts = append(tm.Alerts, spec.Alert{FailureRate: 0.25 * float64(1+r.IntN(4)), Of: 1 + r.IntN(6)})
				}
			}
			s := &stage{team: tm, webhook: true}
			var ended []bool
			used := map[string]int64{}
			fails := map[string]int{"a": r.IntN(3), "b": r.IntN(3), "c": r.IntN(3)}
			var env *testsuite.TestWorkflowEnvironment
			pause := r.IntN(6)
			s.round = func(in activities.RoundInput) (session.RoundResult, error) {
				if len(s.rounds) == pause {
					suggested := make(chan struct{})
					env.RegisterDelayedCallback(func() { suggest(env); close(suggested) }, 0)
					<-suggested
				}
				if in.Round <= fails[in.Persona] {
					used[in.Persona], ended = 7, append(ended, true, true)
					return session.RoundResult{}, failedRound(failures.TestFailure, "no")
				}
				used[in.Persona], ended = 110, append(ended, false)
				return session.RoundResult{}, nil
			}
			env = s.play(t, func(e *testsuite.TestWorkflowEnvironment) { env = e })
			if workflow.IsContinueAsNewError(env.GetWorkflowError()) {
				env = s.playFrom(t, next(t, env), func(e *testsuite.TestWorkflowEnvironment) { env = e })
			}
			require.NoError(t, env.GetWorkflowError())
			var want []string
			for _, rule := range tm.Resolved().Alerts {
				reached := rule.Tokens > 0 && used["a"]+used["b"]+used["c"] >= rule.Tokens
				for end := rule.Of; rule.Of > 0 && end <= len(ended); end++ {
					failed := 0
					for _, f := range ended[end-rule.Of : end] {
						if f {
							failed++
						}
					}
					reached = reached || float64(failed) >= rule.FailureRate*float64(rule.Of)
				}
				if reached {
					want = append(want, rule.String()+" ")
				}
			}
			require.ElementsMatch(t, want, s.raised())
			require.Len(t, status(t, env).Alerts, len(want))
		})
	}
}

// patient makes a team of phases whose sessions wait for a person.
func patient(phases ...spec.Phase) spec.Team {
	t := newTeam(phases...)
	t.Help.Mode = spec.HelpAsk
	t.Retry = spec.Retry{Attempts: 1, Rounds: 1}
	return t
}

// says has a person answer a request after a while, by a signal. The environment has
// every run look like a reset one, which the ids of requests tell.
func says(after time.Duration, a session.Answer) func(*testsuite.TestWorkflowEnvironment) {
	a.Request += "-default-"
	return func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(workflows.ResolveUpdate, a) }, after)
	}
}

// sendingBack is the result of a round that sends work back.
func sendingBack(in activities.RoundInput, reason string) session.RoundResult {
	r := success(in)
	r.SendsBack = []string{reason}
	return r
}

// TestAcceptedWorkIsTheNextInput has the first of a sequence send work back in vain: once
// a person accepts the work as it is, those after it work on what it left.
func TestAcceptedWorkIsTheNextInput(t *testing.T) {
	t.Parallel()
	for order, input := range map[spec.Order]spec.Digest{spec.OrderSequence: "tree-two.tester.1", spec.OrderParallel: "input-two"} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			two := phase("two", "tester", "writer")
			two.Order, two.SendsBack = order, &spec.SendsBack{To: "one"}
			s := &stage{team: patient(phase("one", "dev"), two)}
			s.course.Only = []string{"two"} // so that nothing can be sent back
			s.round = func(in activities.RoundInput) (session.RoundResult, error) {
				if in.Persona == "tester" {
					return sendingBack(in, "no good"), nil
				}
				return session.RoundResult{}, nil
			}
			s.begun = map[string]spec.Digest{"two": "input-two"}
			env := s.play(t, says(time.Hour, session.Answer{Request: "two.tester.1", Action: session.AnswerSkip}))
			require.NoError(t, env.GetWorkflowError())
			require.Equal(t, input, s.rounds[len(s.rounds)-1].Input)
			require.Len(t, s.advanced, 1)
			require.Len(t, s.advanced[0].Assignments, 2, "nobody's work is left out")
			require.Equal(t, spec.Digest("delta-two.writer.1"), s.advanced[0].Assignments[1].Delta)
		})
	}
}

// TestAllReasonsArePassedOn has two personas of a phase send work back at once.
func TestAllReasonsArePassedOn(t *testing.T) {
	t.Parallel()
	two := phase("two", "tester", "reader")
	two.SendsBack = &spec.SendsBack{To: "one", Times: 1}
	s := &stage{team: patient(phase("one", "dev"), two)}
	s.round = func(in activities.RoundInput) (session.RoundResult, error) {
		if in.Phase == "two" && in.Rework == nil {
			return sendingBack(in, "not for the "+in.Persona), nil
		}
		return session.RoundResult{}, nil
	}
	require.NoError(t, s.play(t).GetWorkflowError())
	require.Len(t, s.reworks, 1)
	require.Equal(t, []string{"not for the tester", "reader adds: not for the reader"}, s.reworks[0].Rework.Reasons)
	require.Len(t, s.reworks[0].Left, 2)
	require.Equal(t, s.reworks[0].Rework.Reasons, s.rounds[3].Rework.Reasons)
	require.Equal(t, []any{1, session.BecauseSentBack}, []any{s.rounds[3].Ordered, s.rounds[3].Because})
}

// TestWhatOnePersonaFindsWantingIsAcceptedForItOnly has a person decide about every
// persona that sends work back.
func TestWhatOnePersonaFindsWantingIsAcceptedForItOnly(t *testing.T) {
	t.Parallel()
	two := phase("two", "tester", "reader")
	two.SendsBack = &spec.SendsBack{To: "one"}
	s := &stage{team: patient(phase("one", "dev"), two), begun: map[string]spec.Digest{"two": "input-two"}}
	s.course.Only = []string{"two"}
	s.round = func(in activities.RoundInput) (session.RoundResult, error) { return sendingBack(in, "no good"), nil }
	env := s.play(t, says(time.Hour, session.Answer{Request: "two.tester.1", Action: session.AnswerSkip}),
		says(2*time.Hour, session.Answer{Request: "two.reader.1", Action: session.AnswerSkip}))
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, s.answers, 2)
	require.Len(t, s.advanced, 1)
}

// TestNothingIsSentBackInASessionThatEnds has work found wanting after a person has
// aborted another branch: what is at work beside it is still finished and recorded.
func TestNothingIsSentBackInASessionThatEnds(t *testing.T) {
	t.Parallel()
	tm := patient(phase("aside", "a"), phase("one", "b"), phase("two", "c"), phase("docs", "d"))
	tm.Phases[1].Needs, tm.Phases[3].Needs, tm.Phases[2].SendsBack = []string{}, []string{"one"},
		&spec.SendsBack{To: "one", Times: 1}
	tm.Retry.Rounds, tm.Retry.RoundInitial, tm.Retry.RoundMax = 3, textfmt.Duration(5*time.Hour), textfmt.Duration(5*time.Hour)
	s := &stage{team: tm, round: func(in activities.RoundInput) (session.RoundResult, error) {
		switch {
		case in.Persona == "a":
			return session.RoundResult{}, failedRound(failures.Auth, "no key")
		case in.Persona == "c" && in.Round == 2:
			return sendingBack(in, "no"), nil
		case in.Persona == "c", in.Persona == "d" && in.Round < 3:
			return session.RoundResult{}, failedRound(failures.APIError, "away")
		}
		return session.RoundResult{}, nil
	}}
	env := s.play(t, says(time.Hour, session.Answer{Request: "aside.a.1", Action: session.AnswerAbort}))
	require.ErrorContains(t, env.GetWorkflowError(), "aside/a needs help")
	require.Empty(t, s.reworks)
	require.Len(t, s.advanced, 2)
	require.Equal(t, "docs", s.advanced[1].Phase)
}

// TestRoundsOfAForcedPhaseSaySo, and those of no other.
func TestRoundsOfAForcedPhaseSaySo(t *testing.T) {
	t.Parallel()
	s := &stage{team: patient(phase("one", "dev"), phase("two", "tester"))}
	s.course.Force = []string{"two"}
	require.NoError(t, s.play(t).GetWorkflowError())
	require.Equal(t, []bool{false, true}, []bool{s.rounds[0].Forced, s.rounds[1].Forced})
	require.Empty(t, s.rounds[1].Because)
}
