package workflows_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
)

func TestUndeliveredOutcomesAreSentAtTheBoundariesAndBeforeTheEnd(t *testing.T) {
	t.Parallel()
	s := &stage{team: newTeam(phase("design", "a"), phase("build", "b")), deaf: true}
	s.round = func(in activities.RoundInput) (session.RoundResult, error) {
		result := success(in)
		result.Unreported = &session.BreakerReport{ID: in.Phase}
		return result, nil
	}
	var sent [][]session.BreakerReport
	env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterActivityWithOptions(func(_ context.Context, reports []session.BreakerReport) ([]session.BreakerReport, error) {
			sent = append(sent, reports)
			if len(sent) == 1 {
				return reports, nil
			}
			return nil, nil
		}, activity.RegisterOptions{Name: string(activities.ReportBreakerName)})
	})
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, s.advanced[0].Unreported, 1)
	require.Len(t, s.advanced[1].Unreported, 2)
	require.Len(t, sent, 2, "tried again until it was delivered")
	require.Equal(t, "design", sent[1][0].ID)
}
