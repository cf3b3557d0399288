package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/team"
)

// checks are agents whose check is given its context.
type checks struct {
	*agents
	check func(ctx context.Context) error
}

func (c *checks) Check(ctx context.Context, _ team.CheckJob) (team.Outcome, error) {
	return team.Outcome{}, c.check(ctx)
}

// merge executes the merge of the desk's phase, whose checks are check.
func (d *desk) merge(check func(ctx context.Context) error) (activities.SealResult, error) {
	d.t.Helper()
	return d.mergeOf("", check)
}

func (d *desk) mergeOf(order activities.OutageOrder, check func(ctx context.Context) error) (activities.SealResult, error) {
	d.t.Helper()
	seals := &activities.Seals{Rounds: &activities.Rounds{
		Files: d.store, Sessions: d.store, Ledgers: d.store, Agents: &checks{d.agents, check}, Clock: time.Now, LostLimit: 3, Drain: time.Millisecond,
	}}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(seals.Seal)
	var result activities.SealResult
	value, err := env.ExecuteActivity(seals.Seal, activities.SealInput{
		Phase: "build", Integrator: "dev", Incarnation: 1, Head: d.head, Input: d.input, Assignments: []team.CheckpointAssignment{}, Outage: order,
	})
	if err != nil {
		return result, err
	}
	require.NoError(d.t, value.Get(&result))
	return result, nil
}

func newMerge(t *testing.T) *desk {
	d := newDesk(t)
	d.team.Phases[0] = team.Phase{Name: "build", Personas: []string{"dev"}, Checks: []string{"good"}}
	d.admit()
	return d
}

// TestChecksOfAMergeThatTakeTheirWorkersDownAreGivenUp, as a persona's own are.
func TestChecksOfAMergeThatTakeTheirWorkersDownAreGivenUp(t *testing.T) {
	t.Parallel()
	d := newMerge(t)
	ran := 0
	for range 3 {
		_, err := d.merge(func(context.Context) error { ran++; panic(errKilled) })
		require.ErrorContains(t, err, "killed")
	}
	for range 2 { // also where its end is not heard of
		result, err := d.merge(func(context.Context) error { ran++; return nil })
		require.NoError(t, err)
		require.Equal(t, team.WorkerLost, result.Failure.Category)
		require.Contains(t, result.Failure.Message, "3 times in a row during the checks of phase build")
		require.NotEmpty(t, result.Feedback)
	}
	require.Equal(t, 3, ran)
}

// TestMergeThatEndsInOrderLosesNobody.
func TestMergeThatEndsInOrderLosesNobody(t *testing.T) {
	t.Parallel()
	d := newMerge(t)
	for range 5 {
		result, err := d.merge(func(context.Context) error {
			require.True(t, d.record().Merge.Started)
			return team.Failf(team.TestFailure, "no good")
		})
		require.NoError(t, err)
		require.Equal(t, team.TestFailure, result.Failure.Category)
		require.False(t, d.record().Merge.Started)
		require.Zero(t, d.record().Merge.Lost)
	}
}

// TestMergeOfAnEarlierIncarnationIsStopped: its checks may go on for hours.
func TestMergeOfAnEarlierIncarnationIsStopped(t *testing.T) {
	t.Parallel()
	d := newMerge(t)
	_, err := d.merge(func(ctx context.Context) error {
		_, err := d.store.UpdateRecord(d.key(), team.AssignmentID{Phase: "build", Persona: "dev"}, 2, func(*team.Record) {})
		require.NoError(t, err)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	app := requireType(t, err, team.UnrecoverableError)
	require.Contains(t, app.Error(), "a later incarnation")
	require.Equal(t, 2, d.record().Incarnation)
}

// TestMergeWaitsForItsMachine: what fails its checks is nobody's work, so nobody has to mend it.
func TestMergeWaitsForItsMachine(t *testing.T) {
	t.Parallel()
	full := func(context.Context) error { return team.Failf(team.ResourceError, "no space") }
	d := newMerge(t)
	d.patient(time.Hour, team.OutageWait)
	for waits := range 3 {
		_, err := d.merge(full)
		require.Positive(t, requireType(t, err, team.RecoverableError).NextRetryDelay())
		require.Equal(t, waits+1, d.record().Merge.Outage.Waits)
		require.False(t, d.record().Merge.Started)
	}
	result, err := d.merge(func(context.Context) error { return nil })
	require.NoError(t, err)
	require.Nil(t, result.Failure)

	d = newMerge(t)
	d.patient(time.Nanosecond, team.OutageWait)
	_, err = d.merge(full)
	requireType(t, err, team.RecoverableError)
	_, err = d.merge(full)
	var stop activities.OutageStop
	require.NoError(t, requireType(t, err, team.ProviderOutage).Details(&stop))
	require.Equal(t, "no space", stop.Failure.Message)
	_, err = d.mergeOf(activities.OutageNoticed, full)
	requireType(t, err, team.RecoverableError)

	d = newMerge(t)
	d.patient(time.Nanosecond, team.OutageFail)
	_, err = d.merge(full)
	requireType(t, err, team.RecoverableError)
	result, err = d.merge(full)
	require.NoError(t, err)
	require.Equal(t, team.ResourceError, result.Failure.Category)
}
