package activities_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
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

// TestStatusIsThatOfTheNewestBoundary: what comes late, or again, changes nothing.
func TestStatusIsThatOfTheNewestBoundary(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	late := p.boundary()
	late.At = time.Time{}
	in := activities.MarkInput{Boundary: p.boundary()}
	want := in.Status.Clone()
	in.Status.Usage, in.Status.Dropped, in.Status.Phases[0].Assignments[0].Usage = cost.Usage{InputTokens: 7}, cost.Usage{InputTokens: 2}, cost.Usage{InputTokens: 5}
	in.Status.Help = []session.Request{{ID: "pair.p.1", Usage: cost.Usage{InputTokens: 5}, Kind: session.ForHelp, Phase: "pair", Persona: "p", Message: "stuck"}}
	in.Status.Status, in.Status.Reason, in.FirstRun = session.HelpIsNeeded, "pair/p: stuck", "first"
	want.Status, want.Reason, want.Help = in.Status.Status, in.Status.Reason, slices.Clone(in.Status.Help)
	want.Help[0].Usage = cost.Usage{}
	execute(t, p.boundaries().Mark, in, &activities.Marked{})
	e, err := p.store.State.Execution(t.Context(), p.key())
	require.NoError(t, err)
	require.Equal(t, want, e.Status, "costs are sums over calls")
	require.Equal(t, []any{p.head, "first", testRun}, []any{e.Checkpoint, e.FirstRun, e.RunID})
	require.True(t, in.At.Equal(e.BoundaryAt))

	for _, again := range []activities.Boundary{in.Boundary, late} {
		execute(t, p.boundaries().Mark, activities.MarkInput{Boundary: again}, &activities.Marked{})
		after, err := p.store.State.Execution(t.Context(), p.key())
		require.NoError(t, err)
		require.Equal(t, content(e), content(after))
	}
}

// content is a status without what each write of it changes.
func content(e session.Execution) session.Execution {
	e.Revision, e.UpdatedAt = 0, time.Time{}
	return e
}

// readOnly is a database that takes no boundary.
type readOnly struct{ activities.State }

func (readOnly) PutBoundary(context.Context, state.Boundary) ([]session.Request, bool, error) {
	return nil, false, errors.New("no space left on device")
}

// TestBoundaryWaitsForItsStatus: work continues only when everybody can read how it stands.
func TestBoundaryWaitsForItsStatus(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	boundaries, heard := p.boundaries(), &witness{}
	boundaries.State, boundaries.Observer = readOnly{p.db()}, heard
	var suite testsuite.WorkflowTestSuite
	for _, step := range []struct{ do, in any }{
		{boundaries.Mark, activities.MarkInput{Boundary: p.boundary()}},
		{boundaries.Advance, activities.AdvanceInput{Boundary: p.boundary(), Phase: "root"}},
		{boundaries.Rework, activities.ReworkInput{Boundary: p.boundary(), Rework: session.Rework{To: "root", Open: []string{"root"}}}},
		{boundaries.Close, activities.CloseInput{Boundary: p.boundary()}},
	} {
		env := suite.NewTestActivityEnvironment()
		env.RegisterActivityWithOptions(step.do, activity.RegisterOptions{Name: "x"})
		_, err := env.ExecuteActivity("x", step.in)
		require.False(t, requireType(t, err, session.StoreUnusable).NonRetryable())
	}
	require.Equal(t, []string{"store waited", "store waited", "store waited", "store waited"}, heard.heard)
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

// TestStatusIsThatOfTheRunThatWritesIt, also where an earlier run of the session, from
// before a reset, had ended.
func TestStatusIsThatOfTheRunThatWritesIt(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	before := p.boundary()
	before.Status.Status = session.Completed
	execute(t, p.boundaries().Close, activities.CloseInput{Boundary: before}, nil)
	at := p.boundary()
	at.Status.Status, at.Status.ClosedAt = session.HelpIsNeeded, nil
	p.run = 2 // the reset
	execute(t, p.boundaries().Mark, activities.MarkInput{Boundary: at}, &activities.Marked{})
	e, err := p.store.State.Execution(t.Context(), p.key())
	require.NoError(t, err)
	require.Equal(t, []any{testRun + "-2", 2}, []any{e.RunID, e.Run})
	require.Equal(t, session.HelpIsNeeded, e.Status.Status)
	require.Nil(t, e.ClosedAt)
}

// TestRoundsOfWorkThatIsSentBackAreStale: nobody takes them for work under way.
func TestRoundsOfWorkThatIsSentBackAreStale(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	in := p.phase("root", p.workspace, "pair", "side")
	id := spec.AssignmentID{Phase: "pair", Persona: "q"}
	p.work(id, in["pair"])
	of := state.Assignment{Key: p.key(), AssignmentID: id}
	cancelled, err := p.db().OpenRound(t.Context(), state.RoundOrder{Assignment: of, TemporalRun: testRun, Round: 2, Holder: "x"})
	require.NoError(t, err)
	require.NoError(t, p.db().PutRound(t.Context(), cancelled.Fence, of, session.RoundRecord{Order: cancelled.Order, Round: 2}, nil))
	p.sendBack("pair", []string{"pair"})
	record, err := p.store.State.Record(t.Context(), of)
	require.NoError(t, err)
	require.Equal(t, session.Pending, record.Status().Status)
	require.Len(t, record.Rounds, 2)
}
