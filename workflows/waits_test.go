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

// raises answers for the raises of budgets, and keeps what was asked for.
func raises(env *testsuite.TestWorkflowEnvironment, to spec.Cap) *[]activities.RaiseInput {
	raised := &[]activities.RaiseInput{}
	env.RegisterActivityWithOptions(func(_ context.Context, in activities.RaiseInput) (activities.Raised, error) {
		*raised = append(*raised, in)
		return activities.Raised{Scope: in.Scope, Cap: to}, nil
	}, activity.RegisterOptions{Name: string(activities.RaiseName)})
	return raised
}

// spent is how a round ends whose budget of some scope is spent.
func spent(scope string) error {
	stop := activities.BudgetStop{
		Scope: scope, Message: "it is spent", RoundReport: session.RoundReport{Total: cost.Usage{InputTokens: 7}},
	}
	if scope == "day" {
		stop.Date = "2026-01-31"
	}
	return temporal.NewApplicationErrorWithOptions("spent", session.BudgetSpent, temporal.ApplicationErrorOptions{
		NonRetryable: true, Details: []any{stop},
	})
}

func TestRoundThatCouldNotLookDoesNotForgetWhatWasSpent(t *testing.T) {
	t.Parallel()
	s := &stage{team: newTeam(phase("build", "a"))}
	s.round = func(in activities.RoundInput) (session.RoundResult, error) {
		if in.Round == 1 {
			return session.RoundResult{}, failedRound(failures.TestFailure, "no")
		}
		report := activities.RoundFailure{Failure: failures.Failure{
			Category: failures.ResourceError, Message: "a blob is gone",
			Final: true,
		}}
		return session.RoundResult{}, temporal.NewApplicationErrorWithOptions("gone", session.UnrecoverableError,
			temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{report}})
	}
	env := s.play(t)
	help := requireHelp(t, env, "build/a failed: resource_error: a blob is gone")
	require.Equal(t, int64(7), help[0].Usage.Tokens())
	require.Equal(t, int64(7), status(t, env).Usage.Tokens())
}

func TestARaiseThatNamesNoBudgetIsForTheOneThatIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		waits  map[string]string // by persona
		raised string
		why    string
	}{
		"one": {map[string]string{"a": "persona a", "b": "persona a"}, "persona a", ""},
		"several": {
			map[string]string{"a": "persona a", "b": "session"},
			"",
			"`maestro budget raise default-test-workflow-id --persona a --tokens N` or `maestro budget raise default-test-workflow-id " +
				"--session --tokens N`",
		},
		"a day": {map[string]string{"a": "day"}, "", "`maestro budget raise --team t --usd N`"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			aside := phase("aside", "b")
			aside.Needs = []string{}
			s := &stage{team: newTeam(phase("build", "a"), aside)}
			s.team.Budget = spec.Budget{Tokens: 100, Daily: spec.Cap{USD: 100}, OnExceeded: spec.OnExceededAsk}
			persona := s.team.Personas["a"]
			persona.Budget.Tokens = 10
			s.team.Personas["a"] = persona
			stopped := map[string]bool{}
			s.round = func(in activities.RoundInput) (session.RoundResult, error) {
				if scope := c.waits[in.Persona]; scope != "" && !stopped[in.Persona] {
					stopped[in.Persona] = true
					return session.RoundResult{}, spent(scope)
				}
				return session.RoundResult{}, nil
			}
			var raised *[]activities.RaiseInput
			refusal := ""
			env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
				raised = raises(env, spec.Cap{})
				env.RegisterActivityWithOptions(func(context.Context, activities.AwaitBudgetInput) error { return nil },
					activity.RegisterOptions{Name: string(activities.AwaitBudgetName)})
				env.OnActivity(string(activities.AwaitBudgetName), mock.Anything, mock.Anything).After(time.Hour).Return(nil).Maybe()
				env.RegisterDelayedCallback(func() {
					if name == "a day" {
						require.Contains(t, status(t, env).Help[0].Suggestion, "continues by itself at 2026-02-01 00:00 UTC")
					}
					env.UpdateWorkflow(workflows.RaiseUpdate, "r", &testsuite.TestUpdateCallback{
						OnAccept: func() {}, OnComplete: func(any, error) {}, OnReject: func(err error) { refusal = err.Error() },
					}, workflows.Raise{Tokens: 50})
					if c.raised == "" {
						env.CancelWorkflow()
					}
				}, time.Minute)
			})
			if c.raised == "" {
				require.Contains(t, refusal, c.why)
				require.Empty(t, *raised)
				return
			}
			require.NoError(t, env.GetWorkflowError())
			require.Len(t, *raised, 1)
			require.Equal(t, c.raised, (*raised)[0].Scope)
		})
	}
}

// TestOneSpentBudgetIsOneRequest of eight personas. What a person says of the work of one is not said of the others.
func TestOneSpentBudgetIsOneRequest(t *testing.T) {
	t.Parallel()
	personas := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for name, c := range map[string]struct {
		during func(env *testsuite.TestWorkflowEnvironment)
		// open are the requests after an hour; rounds is how often the agents are asked in all.
		open   []string
		rounds int
	}{
		"raised": {func(env *testsuite.TestWorkflowEnvironment) {
			env.SignalWorkflow(workflows.RaiseUpdate, workflows.Raise{Tokens: 50})
		}, []string{}, 16},
		"tried again": {func(env *testsuite.TestWorkflowEnvironment) {
			resolve(env, session.Answer{Request: "build.a.1", Action: session.AnswerRetry, By: "ann"})
		}, []string{}, 16},
		"one is skipped": {func(env *testsuite.TestWorkflowEnvironment) {
			resolve(env, session.Answer{Request: "build.a.1", Action: session.AnswerSkip, By: "ann"})
		}, []string{"build.b.1-default-"}, 15},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stage{team: patient(phase("build", personas...)), webhook: true}
			s.team.Budget = spec.Budget{Tokens: 100, OnExceeded: spec.OnExceededAsk}
			s.round = func(in activities.RoundInput) (session.RoundResult, error) {
				if in.Seq == 1 {
					return session.RoundResult{}, spent("session")
				}
				return session.RoundResult{}, nil
			}
			ids := func(env *testsuite.TestWorkflowEnvironment) []string {
				open := []string{}
				for _, r := range status(t, env).Help {
					open = append(open, r.ID)
				}
				return open
			}
			var raised *[]activities.RaiseInput
			env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
				raised = raises(env, spec.Cap{})
				env.RegisterDelayedCallback(func() {
					got := status(t, env)
					require.Equal(t, []string{"build.a.1-default-"}, ids(env))
					require.Equal(t, session.HelpIsNeeded, got.Status)
					for _, a := range got.Phases[0].Assignments {
						require.Equal(t, session.HelpIsNeeded, a.Status)
					}
					c.during(env)
				}, time.Minute)
				env.RegisterDelayedCallback(func() {
					require.Equal(t, c.open, ids(env))
					if len(c.open) > 0 {
						env.SignalWorkflow(workflows.RaiseUpdate, workflows.Raise{Tokens: 50})
					}
				}, time.Hour)
			})
			require.NoError(t, env.GetWorkflowError())
			require.Equal(t, session.Completed, status(t, env).Status)
			require.Len(t, s.rounds, c.rounds)
			for _, r := range *raised {
				require.NotEqual(t, "signal-1", r.ID, "raises of all runs are kept")
			}
			asked := 0
			for _, n := range s.told {
				if n.Notice.Event == session.HelpAsked {
					asked++
				}
			}
			require.Equal(t, 1+len(c.open), asked)
		})
	}
}

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

// roundsLast has the rounds that match take their time, in the workflow's own clock, and end with an error, if there is one.
func roundsLast(env *testsuite.TestWorkflowEnvironment, d time.Duration, err error, match func(activities.RoundInput) bool) {
	env.OnActivity(string(activities.RoundName), mock.Anything, mock.MatchedBy(match)).After(d).Return(session.RoundResult{}, err)
}

// TestAnswersToAnOutage: it is tried now; it is skipped; the session is aborted; nobody answers and it never ends.
func TestAnswersToAnOutage(t *testing.T) {
	t.Parallel()
	for action, fails := range map[session.Action]string{
		session.AnswerRetry: "", session.AnswerSkip: "", session.AnswerAbort: "aborted by ann",
		"nobody": "the provider was not available within 168h",
	} {
		t.Run(string(action), func(t *testing.T) {
			t.Parallel()
			s := &stage{team: newTeam(phase("build", "a")), round: func(in activities.RoundInput) (session.RoundResult, error) {
				if in.Outage == "" {
					return session.RoundResult{}, outage()
				}
				return session.RoundResult{}, nil
			}}
			env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
				roundsLast(env, 30*24*time.Hour, nil,
					func(in activities.RoundInput) bool { return in.Outage == activities.OutageNoticed })
				env.OnActivity(string(activities.RoundName), mock.Anything, mock.Anything).Return(s.run)
				if action != "nobody" {
					says(time.Hour, session.Answer{Request: "build.a.1", Action: action, By: "ann"})(env)
				}
			})
			if fails != "" {
				require.ErrorContains(t, env.GetWorkflowError(), fails)
				return
			}
			require.NoError(t, env.GetWorkflowError())
			done := status(t, env).Phases[0].Assignments[0]
			if action == session.AnswerSkip {
				require.Equal(t, session.Skipped, done.Status)
				return
			}
			require.Equal(t, activities.OutageRetry, s.rounds[len(s.rounds)-1].Outage)
			require.Equal(t, 1, done.Rounds, "it is the same round")
			require.Empty(t, status(t, env).Help)
		})
	}
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
		of := func(persona string, known bool) func(activities.RoundInput) bool {
			return func(in activities.RoundInput) bool { return in.Persona == persona && (in.Outage != "") == known }
		}
		roundsLast(env, 0, outage(), of("a", false))
		roundsLast(env, 3*time.Hour, nil, of("a", true))
		roundsLast(env, time.Hour, failedRound(failures.Auth, "refused"), of("b", false))
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
				roundsLast(env, 8*24*time.Hour, nil, func(in activities.RoundInput) bool { return in.Persona == "a" })
				roundsLast(env, time.Hour, failedRound(failures.Auth, "refused"),
					func(in activities.RoundInput) bool { return in.Persona == "b" })
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
