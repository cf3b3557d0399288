package activities_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// mirrored is the assignment's state in execution_state.json, and the revision.
func (d *desk) mirrored() (session.State, int64) {
	d.t.Helper()
	e, err := d.store.Execution(d.key())
	require.NoError(d.t, err)
	return e.Assignment(spec.AssignmentID{Phase: "build", Persona: "dev"}).Status, e.Revision
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
	require.Equal(t, session.Pending, state)
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
	require.Equal(t, session.Completed, state)
}

func TestLongWorkIsMirroredWhileItLasts(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		require.Eventually(t, func() bool { state, _ := d.mirrored(); return state == session.Running }, 20*time.Second, 10*time.Millisecond)
		return leave("a.txt", "x")(ctx, job)
	}
	_, err := d.round(activities.Heartbeat{})
	require.NoError(t, err)
	state, _ := d.mirrored()
	require.Equal(t, session.Completed, state)
}

func TestFailedWorkIsMirroredHoweverShort(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.agents.run = fail(failures.TestFailure)
	_, err := d.round(activities.Heartbeat{})
	requireType(t, err, session.RecoverableError)
	state, _ := d.mirrored()
	require.Equal(t, session.Waiting, state)
}

// TestALostMirrorIsMadeAgain: a state that was damaged is complete again once the session
// says that it waits, whatever it had come to.
func TestALostMirrorIsMadeAgain(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	key := session.Key{Namespace: "default-test-namespace", Session: "default-test-workflow-id"}
	in := p.phase("root", p.workspace, "pair", "side")
	p.work(spec.AssignmentID{Phase: "pair", Persona: "q"}, in["pair"])
	before, err := p.store.Execution(key)
	require.NoError(t, err)
	path := filepath.Join(p.dir, "sessions", key.Namespace, key.Session, "execution_state.json")
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))

	help := []session.HelpRequest{{ID: "pair.p.1", Kind: session.ForHelp, Phase: "pair", Persona: "p", Message: "stuck"}}
	execute(t, p.boundaries().Mark, activities.MarkInput{
		Boundary:    activities.Boundary{At: time.Now().UTC(), OriginalRun: "first", Course: session.Course{Only: []string{"root", "pair"}}},
		Incarnation: p.incarnation, Head: p.head, Help: help, Reason: "pair/p: stuck",
	}, &activities.Marked{})
	e, err := p.store.Execution(key)
	require.NoError(t, err)
	require.Equal(t, session.HelpIsNeeded, e.Status.Status)
	require.Equal(t, []any{"pair/p: stuck", "relay", p.head, p.head, before.Tree, "first", []string{"root", "pair"}, p.incarnation},
		[]any{e.Reason, e.Team, e.Head, e.Checkpoint, e.Tree, e.OriginalRun, e.Course.Only, e.Incarnation})
	require.Equal(t, help, e.Help)
	require.Equal(t, before.StartedAt, e.StartedAt)
	require.Equal(t, before.Phases[0], e.Phases[0], "a finished phase")
	require.Equal(t, session.Completed, e.Assignment(spec.AssignmentID{Phase: "pair", Persona: "q"}).Status, "finished in a phase that is not")
	require.Equal(t, session.HelpIsNeeded, e.Assignment(spec.AssignmentID{Phase: "pair", Persona: "p"}).Status)
	require.Equal(t, session.Pending, e.Phases[3].Status)
}

// TestAnEndStaysAsItIs: an executor of a session's last step that was stopped meanwhile
// and goes on later changes nothing.
func TestAnEndStaysAsItIs(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	key := session.Key{Namespace: "default-test-namespace", Session: "default-test-workflow-id"}
	p.admit(session.Course{})
	in := activities.CloseInput{Boundary: activities.Boundary{At: time.Now().UTC()}, Incarnation: p.incarnation, Head: p.head, Status: session.WasCancelled}
	execute(t, p.boundaries().Close, in, nil)
	before, err := p.store.Execution(key)
	require.NoError(t, err)
	late := p.boundaries()
	late.Clock = func() time.Time { return time.Now().Add(time.Hour) }
	execute(t, late.Close, in, nil)
	after, err := p.store.Execution(key)
	require.NoError(t, err)
	require.Equal(t, before, after)
}
