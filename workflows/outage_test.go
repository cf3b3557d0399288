package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/workflows"
)

func outage() error {
	return temporal.NewApplicationErrorWithOptions("away", session.ProviderOutage, temporal.ApplicationErrorOptions{
		NonRetryable: true, Details: []any{activities.OutageStop{
			Failure:     *failures.Failf(failures.RateLimited, "away"),
			RoundReport: session.RoundReport{Total: cost.Usage{InputTokens: 3}},
		}},
	})
}

// turnedAway is how a round ends at an open breaker.
func turnedAway(stop activities.BreakerStop) error {
	stop.Breaker = spec.Breaker{}.For("provider")
	return temporal.NewApplicationErrorWithOptions("open", session.BreakerOpen,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{stop}})
}

// lasting has the activity of a name take its time, in the workflow's own clock.
func lasting(name activities.Name, d time.Duration, result any) func(*testsuite.TestWorkflowEnvironment) {
	return func(env *testsuite.TestWorkflowEnvironment) {
		if name == activities.AwaitBreakerName {
			env.RegisterActivityWithOptions(func(context.Context, activities.AwaitInput) (activities.Awaited, error) {
				return activities.Awaited{}, nil
			},
				activity.RegisterOptions{Name: string(name)})
		}
		env.OnActivity(string(name), mock.Anything, mock.Anything).After(d).Return(result, nil)
	}
}

// TestPatienceCountsWhileABreakerIsAwaited: people are notified once, nobody has to answer,
// and the notice goes with the wait.
func TestPatienceCountsWhileABreakerIsAwaited(t *testing.T) {
	t.Parallel()
	s := &stage{team: newTeam(phase("build", "a")), webhook: true}
	turned := false
	s.round = func(in activities.RoundInput) (session.RoundResult, error) {
		if turned {
			return session.RoundResult{}, nil
		}
		turned = true
		return session.RoundResult{}, turnedAway(activities.BreakerStop{
			Wait: session.BreakerWait{Breaker: "provider", Why: "it is down"}, PatienceUntil: s.began.Add(30 * time.Minute),
		})
	}
	var early, late session.Status
	env := s.play(t, lasting(activities.AwaitBreakerName, 2*time.Hour, activities.Awaited{}),
		func(env *testsuite.TestWorkflowEnvironment) {
			s.began = env.Now()
			env.RegisterDelayedCallback(func() { early = status(t, env) }, 29*time.Minute)
			env.RegisterDelayedCallback(func() { late = status(t, env) }, 31*time.Minute)
		})
	require.NoError(t, env.GetWorkflowError())
	require.Empty(t, early.Help)
	require.Len(t, late.Help, 1)
	require.Equal(t, session.ForOutage, late.Help[0].Kind)
	require.Equal(t, session.WaitingForBreaker, late.Status)
	require.Empty(t, status(t, env).Help)
	var events []session.Event
	for _, in := range s.told {
		events = append(events, in.Notice.Event)
	}
	require.Equal(t, []session.Event{session.HelpAsked, session.RequestClosed, session.SessionCompleted}, events)
	require.Equal(t, activities.OutageNoticed, s.rounds[1].Outage)
	require.Equal(t, 1, status(t, env).Phases[0].Assignments[0].Rounds)
}

// TestRoundOfATeamThatDoesNotWaitFailsAtTheBreaker once it has met the outage itself.
func TestRoundOfATeamThatDoesNotWaitFailsAtTheBreaker(t *testing.T) {
	t.Parallel()
	s := &stage{team: newTeam(phase("build", "a"))}
	s.team.Retry = spec.Retry{Rounds: 1, OnOutage: spec.OutageFail}
	s.round = func(in activities.RoundInput) (session.RoundResult, error) {
		if in.Outage == activities.OutageOver {
			return session.RoundResult{}, failedRound(failures.APIError, "away")
		}
		return session.RoundResult{}, turnedAway(activities.BreakerStop{
			PatienceUntil: s.began.Add(time.Minute), Outage: &session.Outage{},
		})
	}
	env := s.play(t, lasting(activities.AwaitBreakerName, 2*time.Hour, activities.Awaited{}),
		func(env *testsuite.TestWorkflowEnvironment) { s.began = env.Now() })
	require.ErrorContains(t, env.GetWorkflowError(), "away")
	require.Len(t, s.rounds, 2)
}

// TestAnswerWhileABreakerIsAwaited: the assignment is skipped.
func TestAnswerWhileABreakerIsAwaited(t *testing.T) {
	t.Parallel()
	s := &stage{team: newTeam(phase("build", "a"))}
	s.round = func(activities.RoundInput) (session.RoundResult, error) {
		return session.RoundResult{}, turnedAway(activities.BreakerStop{
			Wait: session.BreakerWait{Breaker: "provider", Why: "it is down"}, PatienceUntil: s.began.Add(30 * time.Minute),
		})
	}
	env := s.play(t, lasting(activities.AwaitBreakerName, 48*time.Hour, activities.Awaited{}),
		func(env *testsuite.TestWorkflowEnvironment) {
			s.began = env.Now()
			env.RegisterDelayedCallback(func() {
				env.SignalWorkflow(workflows.ResolveUpdate, session.Answer{Request: "build.a.1-default-", Action: session.AnswerSkip})
			}, time.Hour)
		})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, session.Skipped, status(t, env).Phases[0].Assignments[0].Status)
}

// TestAnswersToAnOutage: it is tried now; it is skipped; the session is aborted; nobody answers and it never ends.
func TestAnswersToAnOutage(t *testing.T) {
	t.Parallel()
	play := func(t *testing.T, answer *session.Answer, more ...func(*testsuite.TestWorkflowEnvironment)) (*stage,
		*testsuite.TestWorkflowEnvironment,
	) {
		s := &stage{team: newTeam(phase("build", "a"))}
		return s, s.play(t, append(more, func(env *testsuite.TestWorkflowEnvironment) {
			env.OnActivity(string(activities.RoundName), mock.Anything, mock.Anything).Return(func(_ context.Context,
				in activities.RoundInput,
			) (session.RoundResult, error) {
				s.rounds = append(s.rounds, in)
				return session.RoundResult{}, outage()
			}).Once()
			env.OnActivity(string(activities.RoundName), mock.Anything,
				mock.MatchedBy(func(in activities.RoundInput) bool { return in.Outage == activities.OutageNoticed })).
				After(30*24*time.Hour).Return(session.RoundResult{}, nil)
			env.OnActivity(string(activities.RoundName), mock.Anything,
				mock.MatchedBy(func(in activities.RoundInput) bool { return in.Outage == activities.OutageRetry })).
				Return(func(_ context.Context, in activities.RoundInput) (session.RoundResult, error) {
					s.rounds = append(s.rounds, in)
					return success(in), nil
				})
			if answer != nil {
				env.RegisterDelayedCallback(func() {
					a := *answer
					a.Request = "build.a.1-default-"
					env.SignalWorkflow(workflows.ResolveUpdate, a)
				}, time.Hour)
			}
		})...)
	}
	t.Run("retry", func(t *testing.T) {
		t.Parallel()
		s, env := play(t, &session.Answer{Action: session.AnswerRetry})
		require.NoError(t, env.GetWorkflowError())
		require.Equal(t, activities.OutageRetry, s.rounds[len(s.rounds)-1].Outage)
		require.Equal(t, 1, status(t, env).Phases[0].Assignments[0].Rounds, "it is the same round")
		require.Empty(t, status(t, env).Help)
	})
	t.Run("skip", func(t *testing.T) {
		t.Parallel()
		_, env := play(t, &session.Answer{Action: session.AnswerSkip})
		require.NoError(t, env.GetWorkflowError())
		require.Equal(t, session.Skipped, status(t, env).Phases[0].Assignments[0].Status)
	})
	t.Run("abort", func(t *testing.T) {
		t.Parallel()
		_, env := play(t, &session.Answer{Action: session.AnswerAbort, By: "ann"})
		require.ErrorContains(t, env.GetWorkflowError(), "aborted by ann")
	})
	t.Run("nobody", func(t *testing.T) {
		t.Parallel()
		_, env := play(t, nil)
		require.ErrorContains(t, env.GetWorkflowError(), "the provider was not available within 168h")
	})
}

// TestMergeThatWaitsForItsMachineUsesNoRound: people are notified, and may have it tried now.
func TestMergeThatWaitsForItsMachineUsesNoRound(t *testing.T) {
	t.Parallel()
	for verb, ends := range map[session.Action]string{session.AnswerRetry: "", session.AnswerAbort: "aborted by"} {
		t.Run(string(verb), func(t *testing.T) {
			t.Parallel()
			s := &stage{team: newTeam(phase("build", "a", "b"))}
			var seen session.Status
			env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
				env.OnActivity(string(activities.MergeName), mock.Anything,
					mock.MatchedBy(func(activities.MergeInput) bool { return len(s.merges) == 0 })).
					Return(func(_ context.Context, in activities.MergeInput) (activities.MergeResult, error) {
						s.merges = append(s.merges, in)
						return activities.MergeResult{}, outage()
					}).Once()
				env.OnActivity(string(activities.MergeName), mock.Anything,
					mock.MatchedBy(func(in activities.MergeInput) bool { return in.Outage == activities.OutageNoticed })).
					After(30*24*time.Hour).Return(activities.MergeResult{}, nil)
				env.OnActivity(string(activities.MergeName), mock.Anything, mock.Anything).Return(s.merged)
				env.RegisterDelayedCallback(func() {
					seen = status(t, env)
					env.SignalWorkflow(workflows.ResolveUpdate, session.Answer{Request: seen.Help[0].ID, Action: verb})
				}, time.Hour)
			})
			require.Len(t, seen.Help, 1)
			require.Equal(t, session.ForOutage, seen.Help[0].Kind)
			require.Equal(t, []session.Action{session.AnswerRetry, session.AnswerAbort}, seen.Help[0].Actions)
			if ends != "" {
				require.ErrorContains(t, env.GetWorkflowError(), ends)
				return
			}
			require.NoError(t, env.GetWorkflowError())
			require.Len(t, s.rounds, 2, "nobody mends what is not wrong")
			require.Equal(t, session.Completed, status(t, env).Phases[0].Assignments[1].Status)
			require.Empty(t, status(t, env).Help)
		})
	}
}

// TestNoticeOfAnOutageSaysWhatItsCauseIsNow, and comes after what asks for something.
func TestNoticeOfAnOutageSaysWhatItsCauseIsNow(t *testing.T) {
	t.Parallel()
	s := &stage{team: newTeam(phase("build", "a", "b"))}
	s.team.Help.Mode = spec.HelpAsk
	var before, after session.Status
	s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.OnActivity(string(activities.RoundName), mock.Anything,
			mock.MatchedBy(func(in activities.RoundInput) bool { return in.Persona == "a" && in.Outage == "" })).
			Return(session.RoundResult{}, outage())
		env.OnActivity(string(activities.RoundName), mock.Anything,
			mock.MatchedBy(func(in activities.RoundInput) bool { return in.Persona == "a" })).
			After(3*time.Hour).Return(session.RoundResult{}, nil)
		env.OnActivity(string(activities.RoundName), mock.Anything,
			mock.MatchedBy(func(in activities.RoundInput) bool { return in.Persona == "b" })).
			After(time.Hour).Return(session.RoundResult{}, failedRound(failures.Auth, "refused"))
		env.RegisterDelayedCallback(func() { before = status(t, env) }, 30*time.Minute)
		env.RegisterDelayedCallback(func() {
			env.SignalWorkflow(workflows.OutageSignal, activities.OutageNews{
				AssignmentID: spec.AssignmentID{Phase: "build", Persona: "a"}, Since: env.Now(),
				Failure: session.AttemptFailure{Category: failures.APIError, Message: "500"},
			})
		}, 90*time.Minute)
		env.RegisterDelayedCallback(func() { after = status(t, env) }, 2*time.Hour)
		env.RegisterDelayedCallback(env.CancelWorkflow, 150*time.Minute)
	})
	require.Contains(t, before.Reason, "rate_limited: away")
	require.Len(t, after.Help, 2)
	require.Equal(t, before.Help[0].ID, after.Help[0].ID)
	require.Equal(t, failures.APIError, after.Help[0].Category)
	require.Contains(t, after.Help[0].Message, "api_error: 500")
	require.Contains(t, after.Reason, "refused")
}

// TestEndingSessionCutsWaitsShort, and only waits: what works is finished. Once the round has
// said that its outage is over, it works.
func TestEndingSessionCutsWaitsShort(t *testing.T) {
	t.Parallel()
	for name, over := range map[string]bool{"waits": false, "works again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stage{team: newTeam(phase("build", "a", "b"))}
			var began, ended time.Time
			env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
				began = env.Now()
				env.OnActivity(string(activities.RoundName), mock.Anything,
					mock.MatchedBy(func(in activities.RoundInput) bool { return in.Persona == "a" })).
					After(8*24*time.Hour).Return(session.RoundResult{}, nil)
				env.OnActivity(string(activities.RoundName), mock.Anything,
					mock.MatchedBy(func(in activities.RoundInput) bool { return in.Persona == "b" })).
					After(time.Hour).Return(session.RoundResult{}, failedRound(failures.Auth, "refused"))
				tell := func(after time.Duration, over bool) {
					env.RegisterDelayedCallback(func() {
						env.SignalWorkflow(workflows.OutageSignal, activities.OutageNews{
							AssignmentID: spec.AssignmentID{Phase: "build", Persona: "a"}, Over: over,
							RoundReport: session.RoundReport{Total: cost.Usage{InputTokens: 3}},
						})
					}, after)
				}
				tell(time.Minute, false)
				if over {
					tell(2*time.Minute, true)
				}
				env.SetOnActivityCanceledListener(func(*activity.Info) { ended = env.Now() })
			})
			require.ErrorContains(t, env.GetWorkflowError(), "refused")
			if over {
				require.GreaterOrEqual(t, env.Now().Sub(began), 8*24*time.Hour)
				require.Zero(t, ended)
				return
			}
			require.Less(t, env.Now().Sub(began), 2*time.Hour)
			require.Equal(t, int64(3), status(t, env).Phases[0].Assignments[0].Usage.InputTokens)
		})
	}
}
