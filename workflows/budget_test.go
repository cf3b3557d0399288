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

// spent is how a round ends whose session has spent its budget.
func spent() error {
	return temporal.NewApplicationErrorWithOptions("spent", session.BudgetSpent, temporal.ApplicationErrorOptions{
		NonRetryable: true, Details: []any{activities.BudgetStop{
			Scope: "session", Message: "it is spent",
			RoundReport: session.RoundReport{Total: cost.Usage{InputTokens: 7}},
		}},
	})
}

func TestRaisesBySignalOfDifferentRunsAreDifferent(t *testing.T) {
	t.Parallel()
	s := &stage{team: newTeam(phase("build", "a"))}
	s.team.Budget = spec.Budget{Tokens: 100, OnExceeded: spec.OnExceededAsk}
	s.round = func(activities.RoundInput) (session.RoundResult, error) {
		if len(s.rounds) == 1 {
			return session.RoundResult{}, spent()
		}
		return session.RoundResult{}, nil
	}
	var raised *[]activities.RaiseInput
	env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		raised = raises(env, spec.Cap{})
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(workflows.RaiseUpdate, workflows.Raise{Tokens: 50}) }, time.Minute)
	})
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, *raised, 1)
	require.NotEqual(t, "signal-1", (*raised)[0].ID, "raises of all runs are kept")
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

// brokeFor is how a round ends whose budget of some scope is spent.
func brokeFor(scope string) error {
	return temporal.NewApplicationErrorWithOptions("spent", session.BudgetSpent, temporal.ApplicationErrorOptions{
		NonRetryable: true, Details: []any{activities.BudgetStop{Scope: scope, Message: "it is spent"}},
	})
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
					if scope == "day" {
						return session.RoundResult{}, spentDay()
					}
					return session.RoundResult{}, brokeFor(scope)
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
					return session.RoundResult{}, spent()
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
			env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
				raises(env, spec.Cap{})
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
