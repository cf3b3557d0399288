package activities_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

// merge executes the merge of the desk's phase, whose checks are check.
func (d *desk) merge(check func(ctx context.Context) error) (activities.MergeResult, error) {
	d.t.Helper()
	return d.mergeOf("", check)
}

func (d *desk) mergeOf(order activities.OutageStance, check func(ctx context.Context) error) (activities.MergeResult, error) {
	d.t.Helper()
	d.agents.checkIn = check
	merges := &activities.Merges{Rounds: &activities.Rounds{
		Files: d.store.Content, WorkDirs: d.workDirs, Sessions: d.store, State: d.db(), Agents: d.agents,
		Clock: time.Now, LostLimit: 3, Drain: time.Millisecond,
	}}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(merges.Merge)
	var result activities.MergeResult
	value, err := env.ExecuteActivity(merges.Merge, activities.MergeInput{
		Phase: "build", Integrator: "dev", Head: d.head, Input: d.input, Outage: order,
	})
	if err != nil {
		return result, err
	}
	require.NoError(d.t, value.Get(&result))
	return result, nil
}

// mergeLog is the state of the merge in its row.
func (d *desk) mergeLog() (log session.MergeLog) {
	d.t.Helper()
	var outage string
	require.NoError(d.t, statetest.SQLite(d.t, d.store.Dir()).QueryRow(`select started, lost, outage from merges`).Scan(&log.Started,
		&log.Lost, &outage))
	require.NoError(d.t, json.Unmarshal([]byte(outage), &log.Outage))
	return log
}

func newMerge(t *testing.T) *desk {
	d := newDesk(t)
	d.team.Phases[0] = spec.Phase{Name: "build", Personas: []string{"dev"}, Checks: []string{"good"}}
	d.admit()
	return d
}

// TestMergeWaitsForItsMachine: what fails its checks is nobody's work, so nobody has to fix it.
func TestMergeWaitsForItsMachine(t *testing.T) {
	t.Parallel()
	full := func(context.Context) error { return failures.Failf(failures.ResourceError, "no space") }
	d := newMerge(t)
	d.patient(time.Hour, spec.OutageWait)
	for waits := range 3 {
		_, err := d.merge(full)
		require.Positive(t, requireType(t, err, session.RecoverableError).NextRetryDelay())
		require.Equal(t, waits+1, d.mergeLog().Outage.Tries)
		require.False(t, d.mergeLog().Started)
	}
	result, err := d.merge(func(context.Context) error { return nil })
	require.NoError(t, err)
	require.Nil(t, result.Failure)

	d = newMerge(t)
	d.patient(time.Nanosecond, spec.OutageWait)
	_, err = d.merge(full)
	requireType(t, err, session.RecoverableError)
	_, err = d.merge(full)
	var stop activities.OutageStop
	require.NoError(t, requireType(t, err, session.ProviderOutage).Details(&stop))
	require.Equal(t, "no space", stop.Failure.Message)
	_, err = d.mergeOf(activities.OutageNoticed, full)
	requireType(t, err, session.RecoverableError)

	d = newMerge(t)
	d.patient(time.Nanosecond, spec.OutageFail)
	_, err = d.merge(full)
	requireType(t, err, session.RecoverableError)
	result, err = d.merge(full)
	require.NoError(t, err)
	require.Equal(t, failures.ResourceError, result.Failure.Category)
}
