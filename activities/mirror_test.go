package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/team"
)

// mirrored is the assignment's state in execution_state.json, and the revision.
func (d *desk) mirrored() (team.State, int64) {
	d.t.Helper()
	e, err := d.store.Execution(d.key())
	require.NoError(d.t, err)
	return e.Assignment(team.AssignmentID{Phase: "build", Persona: "dev"}).Status, e.Revision
}

func TestShortWorkIsLeftToTheBoundary(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, before := d.mirrored()
	beats := 0
	_, err := d.round(activities.Heartbeat{}, func(env *testsuite.TestActivityEnvironment) {
		env.SetOnActivityHeartbeatListener(func(*activity.Info, converter.EncodedValues) { beats++ })
	})
	require.NoError(t, err)
	state, after := d.mirrored()
	require.Equal(t, team.Pending, state)
	require.Equal(t, before, after)
	require.Zero(t, beats)
}

func TestShortWorkBesideOthersIsMirrored(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.team.Personas["other"] = d.team.Personas["dev"]
	d.team.Phases[0].Personas = []string{"dev", "other"}
	d.admit()
	_, err := d.round(activities.Heartbeat{})
	require.NoError(t, err)
	state, _ := d.mirrored()
	require.Equal(t, team.Completed, state)
}

func TestLongWorkIsMirroredWhileItLasts(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.agents.run = func(ctx context.Context, job team.Job) (team.Outcome, error) {
		require.Eventually(t, func() bool { state, _ := d.mirrored(); return state == team.Running }, 20*time.Second, 10*time.Millisecond)
		return leave("a.txt", "x")(ctx, job)
	}
	_, err := d.round(activities.Heartbeat{})
	require.NoError(t, err)
	state, _ := d.mirrored()
	require.Equal(t, team.Completed, state)
}

func TestFailedWorkIsMirroredHoweverShort(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.agents.run = fail(team.TestFailure)
	_, err := d.round(activities.Heartbeat{})
	requireType(t, err, team.RecoverableError)
	state, _ := d.mirrored()
	require.Equal(t, team.Waiting, state)
}
