package workflows_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

func TestOthersFinishWhenOneNeedsHelp(t *testing.T) {
	t.Parallel()
	other := phase("docs", "c")
	other.Needs = []string{}
	after := phase("after", "d")
	after.Needs = []string{"build"}
	s := &stage{team: newTeam(phase("build", "a", "b"), other, after)}
	s.round = func(in activities.RoundInput) (session.RoundResult, error) {
		if in.Persona == "a" {
			return session.RoundResult{}, failedRound(failures.Auth, "bad key")
		}
		return session.RoundResult{}, nil
	}
	requireHelp(t, s.play(t), "build/a failed: auth: bad key")
	require.ElementsMatch(t, []string{"build/a.1", "build/b.1", "docs/c.1"}, s.order())
	require.Len(t, s.advanced, 1, "finished work is recorded")
	require.Equal(t, "docs", s.advanced[0].Phase)
}

func TestIntegratorMendsAMergedTreeThatFails(t *testing.T) {
	t.Parallel()
	p := phase("build", "a", "b")
	p.Integrator = "a"
	s := &stage{team: newTeam(p)}
	s.merge = func(in activities.MergeInput) activities.MergeResult {
		if len(in.Assignments.List[0].Integrated) == 0 {
			return activities.MergeResult{
				Tree: "merged", Feedback: "why", Failure: failures.Failf(failures.TestFailure, "does not build"), Dropped: []string{"f: the version of b is dropped"},
			}
		}
		return activities.MergeResult{Tree: "mended", Kept: "coverage"}
	}
	env := s.play(t)
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, "build/a.2", s.order()[2])
	mending := s.rounds[2]
	require.True(t, mending.Integrating)
	require.Equal(t, spec.Digest("merged"), mending.Input)
	require.Equal(t, spec.Digest("why"), mending.Feedback)
	done := s.advanced[0].Assignments
	i := slices.IndexFunc(done, func(a session.CheckpointAssignment) bool { return a.Persona == "a" })
	require.Equal(t, spec.Digest("delta-build.a.1"), done[i].Delta)
	require.Equal(t, []session.Work{{Delta: "delta-build.a.2"}, {Delta: "coverage"}}, done[i].Integrated)
	require.Equal(t, 2, done[i].Rounds)
	require.Empty(t, status(t, env).Phases[0].Assignments[0].Dropped, "the mended tree has both versions")
}

func TestMergeThatKeepsFailingNeedsHelp(t *testing.T) {
	t.Parallel()
	s := &stage{team: newTeam(phase("build", "a", "b"))}
	s.merge = func(activities.MergeInput) activities.MergeResult {
		return activities.MergeResult{Tree: "merged", Failure: failures.Failf(failures.TestFailure, "does not build")}
	}
	help := requireHelp(t, s.play(t), "build/b failed: test_failure: does not build")
	require.Equal(t, []session.AttemptFailure{{Category: failures.TestFailure, Message: "does not build"}}, help[0].Attempts)
	require.Len(t, s.merges, 2, "the integrator has one round left after its own")
	require.Empty(t, s.advanced)

	s.merge = func(activities.MergeInput) activities.MergeResult {
		return activities.MergeResult{Tree: "merged", Failure: failures.Failf(failures.ContractViolation, "merge conflict between a and b")}
	}
	help = requireHelp(t, s.play(t), "build/b failed: contract_violation: merge conflict between a and b")
	require.Contains(t, help[0].Suggestion, "Retry has build/b work on the merged files again", "not that its output is missing")
}

func TestSessionThatMayNotStartRunsNothing(t *testing.T) {
	t.Parallel()
	s := &stage{team: newTeam(phase("build", "a")), faults: []string{"no worker has agent x", "check y too"}}
	var app *temporal.ApplicationError
	require.ErrorAs(t, s.play(t).GetWorkflowError(), &app)
	require.Equal(t, session.NotAdmitted, app.Type())
	var faults []string
	require.NoError(t, app.Details(&faults))
	require.Equal(t, s.faults, faults)
	require.Empty(t, s.rounds)
}

func TestCancelledSessionEndsAsCancelled(t *testing.T) {
	t.Parallel()
	tm := newTeam(phase("build", "a"), phase("test", "b"))
	tm.Retry.RoundInitial = textfmt.Duration(time.Hour)
	s := &stage{team: tm}
	s.round = func(activities.RoundInput) (session.RoundResult, error) {
		return session.RoundResult{}, failedRound(failures.TestFailure, "no")
	}
	env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	})
	require.True(t, temporal.IsCanceledError(errors.Unwrap(env.GetWorkflowError())) || temporal.IsCanceledError(env.GetWorkflowError()))
	require.Len(t, s.closed, 1)
	require.Equal(t, session.WasCancelled, s.closed[0].Status.Status)
	got := status(t, env)
	require.Equal(t, session.WasCancelled, got.Status)
	require.Equal(t, session.Pending, got.Phases[0].Assignments[0].Status, "cut off, to be done again")
}

// TestHistoriesHoldNoProse holds what the workflow passes on against the rule
// that payloads carry digests and short texts only.
func TestHistoriesHoldNoProse(t *testing.T) {
	t.Parallel()
	tm := newTeam(phase("build", "a"))
	tm.Description = "prose"
	persona := tm.Personas["a"]
	persona.Instructions = strings.Repeat("prose ", 1000)
	tm.Personas["a"] = persona
	payload, err := converter.GetDefaultDataConverter().ToPayload(tm.Resolved().Outline())
	require.NoError(t, err)
	require.NotContains(t, string(payload.GetData()), "prose")
}

func requireHelp(t *testing.T, env *testsuite.TestWorkflowEnvironment, message string) []session.Request {
	t.Helper()
	var app *temporal.ApplicationError
	require.ErrorAs(t, env.GetWorkflowError(), &app)
	require.Equal(t, session.HelpNeeded, app.Type())
	require.Contains(t, app.Error(), message)
	var help []session.Request
	require.NoError(t, app.Details(&help))
	require.NotEmpty(t, help)
	return help
}
