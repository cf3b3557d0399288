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
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// revision is that of the session's status.
func (d *desk) revision() int64 {
	d.t.Helper()
	e, err := d.store.State.Execution(d.t.Context(), d.key())
	require.NoError(d.t, err)
	return e.Revision
}

// TestRoundsLeaveTheSessionsStatusAlone: the state of a round is in its rows.
func TestRoundsLeaveTheSessionsStatusAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	before, beats := d.revision(), 0
	d.agents.run = fail(failures.TestFailure)
	_, err := d.round()
	requireType(t, err, session.RecoverableError)
	require.Equal(t, session.Waiting, d.record().Status().Status)
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		require.Equal(t, session.Running, d.record().Status().Status)
		require.Equal(t, 1, d.record().Status().Attempts)
		return leave("a.txt", "x")(ctx, job)
	}
	_, err = d.round(func(env *testsuite.TestActivityEnvironment) {
		env.SetOnActivityHeartbeatListener(func(*activity.Info, converter.EncodedValues) { beats++ })
	})
	require.NoError(t, err)
	require.Equal(t, session.Completed, d.record().Status().Status)
	require.Equal(t, before, d.revision())
	require.Zero(t, beats, "short work costs no heartbeat")
}

// TestRecordSaysThatTheLastRoundHasFailed, and with which agent.
func TestRecordSaysThatTheLastRoundHasFailed(t *testing.T) {
	t.Parallel()
	for round, want := range map[int]session.State{1: session.Waiting, 2: session.Failed} {
		d := newDesk(t)
		d.agents.run = fail(failures.Syntax)
		in := d.roundInput()
		in.Round, in.Rounds, in.Agent = round, 2, "b"
		var err error
		for range d.team.Personas["dev"].Attempts {
			_, err = d.roundOf(in)
		}
		requireType(t, err, session.UnrecoverableError)
		require.Equal(t, want, d.record().Status().Status)
		require.Equal(t, "b", d.record().Status().Agent)
	}
}

// boundary is what the workflow sends: the status as it knows it.
func (p *past) boundary() activities.Boundary {
	p.t.Helper()
	e, err := p.store.State.Execution(p.t.Context(), p.key())
	require.NoError(p.t, err)
	e.Checkpoint = p.head
	return activities.Boundary{At: time.Now().UTC().Truncate(time.Microsecond), Status: e.Status, FirstRun: testRun}
}

func (p *past) key() session.Key {
	return session.Key{Namespace: "default-test-namespace", Session: "default-test-workflow-id"}
}

// content is a status without what each write of it changes.
func content(e session.Execution) session.Execution {
	e.Revision, e.UpdatedAt = 0, time.Time{}
	return e
}

// TestAnEndStaysAsItIs: an executor of a session's last step that was stopped meanwhile
// and continues later changes nothing.
func TestAnEndStaysAsItIs(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.admit(session.Course{})
	in := activities.CloseInput{Boundary: p.boundary()}
	in.Status.Status = session.WasCancelled
	execute(t, p.boundaries().Close, in, nil)
	before, err := p.store.State.Execution(t.Context(), p.key())
	require.NoError(t, err)
	require.True(t, in.At.Equal(*before.ClosedAt))
	late := p.boundaries()
	late.Clock = func() time.Time { return time.Now().Add(time.Hour) }
	execute(t, late.Close, in, nil)
	after, err := p.store.State.Execution(t.Context(), p.key())
	require.NoError(t, err)
	require.Equal(t, content(before), content(after))
}
