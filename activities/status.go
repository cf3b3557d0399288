package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/failpoint"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// boundaryWriter writes the boundaries of a session.
type boundaryWriter struct {
	sessions Sessions
	state    State
	observer Observer
	// team reads the session's team, if a restored database does not have the session: then it is admitted again.
	team func() (spec.Team, error)
}

// write writes a boundary: the session's status and, if there is one, its checkpoint with the answers that are
// new in it. undone are phases whose work was sent back. It returns the checkpoint's digest, and reports the requests that are
// new. A late boundary changes nothing.
func (w boundaryWriter) write(ctx context.Context, at Boundary, c *session.Checkpoint, undone ...string) (head spec.Digest, err error) {
	info := activity.GetInfo(ctx)
	rows := state.Boundary{
		Key: sessionKey(info), TemporalRun: info.WorkflowExecution.RunID, FirstRun: at.FirstRun, At: at.At, Status: at.Status, Undone: undone,
	}
	if c != nil {
		row, err := w.sessions.StoreCheckpoint(ctx, rows.Key, *c)
		if err != nil {
			return "", err
		}
		head, rows.Checkpoint, rows.Answers = row.Digest, &row, c.Answers
		failpoint.Here("checkpoint stored, no row")
	}
	var opened []session.Request
	err = admitted(ctx, w.state, rows.Key, w.team, func() (err error) {
		opened, _, err = w.state.PutBoundary(ctx, rows)
		return err
	})
	if err != nil {
		return "", err
	}
	failpoint.Here("checkpoint stored, not mirrored")
	for _, r := range opened {
		logRequest(ctx, r)
		if r.Kind == session.ForHelp {
			observerOrNone(w.observer).HelpRequested(r.Category)
		}
	}
	return head, w.sessions.Mirror(ctx, rows.Key)
}

// admitted writes rows of a session. A session that a restored database does not have is admitted again.
func admitted(ctx context.Context, s State, key session.Key, team func() (spec.Team, error), write func() error) error {
	err := write()
	if !errors.Is(err, state.ErrNotFound) {
		return err
	}
	t, err := team()
	if err != nil {
		return err
	}
	if _, err := s.Admit(ctx, admissionOf(key, activity.GetInfo(ctx), t)); err != nil {
		return err
	}
	return write()
}

// write writes a boundary after the first one.
func (b *Boundaries) write(ctx context.Context, at Boundary, c *session.Checkpoint, undone ...string) (head spec.Digest, err error) {
	w := boundaryWriter{b.Sessions, b.State, b.Observer, func() (spec.Team, error) {
		s, err := loadSessionContext(ctx, b.Sessions, at.Status.Checkpoint)
		return s.team, err
	}}
	return w.write(ctx, at, c, undone...)
}

// failed returns the error of a boundary. It is retried after a wait if the store cannot be
// used.
func (b *Boundaries) failed(ctx context.Context, err error) error {
	if err != nil && !isPermanent(err) {
		attempt := int(activity.GetInfo(ctx).Attempt)
		observerOrNone(b.Observer).StoreWaited(spec.Backoff(textfmt.Duration(storeWait), textfmt.Duration(storeWaitMax), attempt).Std())
	}
	return storeError(err)
}

// end sets the state in the status of a boundary at which the session ends.
func (at *Boundary) end(state session.State) {
	at.Status.Status, at.Status.ClosedAt = state, &at.At
}
