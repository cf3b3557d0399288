package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// checkpoints writes the session's chain of checkpoints and its status. The newest checkpoint
// is in the status.
type checkpoints struct {
	status *session.Status
	// mutex serialises the boundaries, which add to the chain.
	mutex workflow.Mutex
	// complete: the newest checkpoint is that of a complete session. closed: the status says
	// how the session ended, and nothing replaces that.
	complete, closed bool
	// empty is the blob of a delta that changes nothing.
	empty spec.Digest
}

// boundary returns the common input of the steps between phases. It has a copy of the status,
// because a local activity gets the value without encoding it.
func (c *checkpoints) boundary(ctx workflow.Context) activities.Boundary {
	info := workflow.GetInfo(ctx)
	return activities.Boundary{
		At: workflow.Now(ctx).UTC(), Status: c.status.Clone(), FirstRun: info.FirstRunID,
	}
}

// ended reports whether the stored status is final.
func (c *checkpoints) ended() bool { return c.complete || c.closed }

// mark writes the status, and the answer that the session continues with, if there is one. The
// status of a session that has ended stays.
func (c *checkpoints) mark(ctx workflow.Context, answer *session.Answer) error {
	if err := c.mutex.Lock(ctx); err != nil {
		return err
	}
	defer c.mutex.Unlock()
	if c.ended() {
		return nil
	}
	out, err := markSession.atBoundary(ctx, activities.MarkInput{Boundary: c.boundary(ctx), Answer: answer})
	if err == nil && out.Head != "" {
		c.status.Checkpoint, c.empty = out.Head, out.Nothing
	}
	return err
}

// close writes how the session ended.
func (c *checkpoints) close(ctx workflow.Context) error {
	if err := c.mutex.Lock(ctx); err != nil {
		return err
	}
	defer c.mutex.Unlock()
	c.closed = true
	_, err := closeSession.atBoundary(ctx, activities.CloseInput{Boundary: c.boundary(ctx)})
	return err
}
