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
)

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
	s.marking = func(activities.MarkInput) { require.Empty(t, s.closed) }
	env := s.play(t)
	require.Error(t, env.GetWorkflowError())
	require.Len(t, s.closed[0].Status.Alerts, 1)
	require.Empty(t, s.told, "nobody listens")
}

// TestRulesWithoutCauseIssueNoCommands holds what a session marks and tells with rules against one
// without.
func TestRulesWithoutCauseIssueNoCommands(t *testing.T) {
	t.Parallel()
	s := &stage{team: newTeam(phase("one", "a")), webhook: true}
	s.team.Alerts = []spec.Alert{{Tokens: 1_000_000}, {Waiting: hours(1)}, {FailureRate: 0.5}}
	env := s.play(t)
	require.NoError(t, env.GetWorkflowError())
	require.Empty(t, s.marked)
	require.Equal(t, []session.Event{session.SessionCompleted}, s.events())
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
