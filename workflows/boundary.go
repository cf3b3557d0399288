package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// boundary returns the common input of the steps between phases. It has a copy of the status,
// because a local activity gets the value without encoding it.
func (s *sessionRun) boundary(ctx workflow.Context) activities.Boundary {
	info := workflow.GetInfo(ctx)
	return activities.Boundary{
		At: workflow.Now(ctx).UTC(), Status: s.Status.Clone(), FirstRun: info.FirstRunID,
	}
}

// isEndStored reports whether the stored status is final.
func (s *sessionRun) isEndStored() bool { return s.completeStored || s.endStored }

// mark writes the status, and the answer that the session continues with, if there is one. The
// status of a session that has ended stays.
func (s *sessionRun) mark(ctx workflow.Context, answer *session.Answer) error {
	if err := s.boundaries.Lock(ctx); err != nil {
		return err
	}
	defer s.boundaries.Unlock()
	if s.isEndStored() {
		return nil
	}
	out, err := markSession.atBoundary(ctx, activities.MarkInput{Boundary: s.boundary(ctx), Answer: answer})
	if err == nil && out.Head != "" {
		s.Status.Checkpoint, s.EmptyDelta = out.Head, out.Nothing
	}
	return err
}

// storeEnd writes how the session ended.
func (s *sessionRun) storeEnd(ctx workflow.Context) error {
	if err := s.boundaries.Lock(ctx); err != nil {
		return err
	}
	defer s.boundaries.Unlock()
	s.endStored = true
	_, err := closeSession.atBoundary(ctx, activities.CloseInput{Boundary: s.boundary(ctx)})
	return err
}
