package workflows_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

func away() error {
	return temporal.NewApplicationErrorWithOptions("open", session.BreakerOpen, temporal.ApplicationErrorOptions{
		NonRetryable: true, Details: []any{activities.BreakerStop{
			Breaker: spec.Breaker{}.For("provider"), Wait: session.BreakerWait{Breaker: "provider", Why: "it is down"},
		}},
	})
}

// awaiting registers what answers for breakers.
func awaiting(await func(context.Context, activities.AwaitInput) (activities.Awaited, error),
	report func(context.Context, []session.BreakerReport) ([]session.BreakerReport, error),
) func(*testsuite.TestWorkflowEnvironment) {
	return func(env *testsuite.TestWorkflowEnvironment) {
		if await != nil {
			env.RegisterActivityWithOptions(await, activity.RegisterOptions{Name: string(activities.AwaitBreakerName)})
		}
		if report != nil {
			env.RegisterActivityWithOptions(report, activity.RegisterOptions{Name: string(activities.ReportBreakerName)})
		}
	}
}

func TestOpenBreakerCostsNoRound(t *testing.T) {
	t.Parallel()
	s := &stage{team: newTeam(phase("build", "a"))}
	turned := 0
	s.round = func(activities.RoundInput) (session.RoundResult, error) {
		if turned++; turned <= 3 {
			return session.RoundResult{}, away()
		}
		return session.RoundResult{}, nil
	}
	var waits []activities.AwaitInput
	var seen []session.Status
	var env *testsuite.TestWorkflowEnvironment
	env = s.play(t, awaiting(func(_ context.Context, in activities.AwaitInput) (activities.Awaited, error) {
		waits = append(waits, in)
		seen = append(seen, status(t, env))
		return activities.Awaited{Lease: session.BreakerPermit{Holder: "lease"}}, nil
	}, nil), func(e *testsuite.TestWorkflowEnvironment) { env = e })
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, []string{"build/a.1", "build/a.1", "build/a.1", "build/a.1"}, s.order(), "the same round each time")
	require.Empty(t, s.rounds[0].Lease)
	require.Equal(t, "lease", s.rounds[3].Lease.Holder)
	require.Len(t, waits, 3)
	for _, at := range seen {
		require.Equal(t, session.WaitingForBreaker, at.Status)
		require.Contains(t, at.Reason, "maestro breaker show provider")
		require.Equal(t, session.Waiting, at.Phases[0].Assignments[0].Status)
		require.Equal(t, 0, at.Phases[0].Assignments[0].Rounds)
	}
	got := status(t, env)
	require.Equal(t, session.Completed, got.Status)
	require.Empty(t, got.Reason)
	require.Equal(t, 1, got.Phases[0].Assignments[0].Rounds)
	require.Equal(t, 1, got.Phases[0].Assignments[0].Attempts)
}

func TestUndeliveredOutcomesAreSentAtTheBoundariesAndBeforeTheEnd(t *testing.T) {
	t.Parallel()
	s := &stage{team: newTeam(phase("design", "a"), phase("build", "b")), deaf: true}
	s.round = func(in activities.RoundInput) (session.RoundResult, error) {
		result := success(in)
		result.Unreported = &session.BreakerReport{ID: in.Phase}
		return result, nil
	}
	var sent [][]session.BreakerReport
	env := s.play(t, awaiting(nil, func(_ context.Context, reports []session.BreakerReport) ([]session.BreakerReport, error) {
		sent = append(sent, reports)
		if len(sent) == 1 {
			return reports, nil
		}
		return nil, nil
	}))
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, s.advanced[0].Unreported, 1)
	require.Len(t, s.advanced[1].Unreported, 2)
	require.Len(t, sent, 2, "tried again until it was delivered")
	require.Equal(t, "design", sent[1][0].ID)
}
