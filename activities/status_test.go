package activities_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// revision is that of the session's status.
func (d *desk) revision() int64 {
	d.t.Helper()
	e, err := d.store.State.Execution(d.t.Context(), d.key())
	require.NoError(d.t, err)
	return e.Revision
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
