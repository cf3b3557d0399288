package activities

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// mirrorStep is a step between phases that changes execution_state.json.
type mirrorStep struct {
	Boundary
	incarnation int
	// head is the newest checkpoint before the step.
	head spec.Digest
	// help is all that a person is needed for.
	help []session.HelpRequest
}

// updateMirror has a step change execution_state.json, unless the session is past the step.
// A state that is missing or damaged is made again first, from the checkpoint and the
// records. after is the state as it then is.
func (b *Boundaries) updateMirror(ctx context.Context, step mirrorStep, change func(*session.Execution)) (after session.Execution, err error) {
	info := activity.GetInfo(ctx)
	key := sessionKey(info)
	var lost *session.Execution
	stored, err := b.Sessions.Execution(key)
	switch {
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrCorrupt), err == nil && len(stored.Phases) == 0:
		lost, err = b.rebuilt(ctx, step)
		if err != nil && !isPermanent(err) {
			return after, fmt.Errorf("recreate execution_state.json: %w", err)
		}
		if err != nil { // what it would be made from is lost, too
			activity.GetLogger(ctx).Warn("execution_state.json cannot be recreated", "error", err)
		}
	case err != nil:
		return after, err
	}
	err = b.Sessions.UpdateExecution(key, func(e *session.Execution) {
		if after = *e; e.IsPast(step.incarnation, step.At) || closedBy(e, step, info.WorkflowExecution.RunID) {
			return
		}
		if len(e.Phases) == 0 && lost != nil {
			revision := e.Revision
			*e = *lost
			e.Revision = revision
		}
		change(e)
		e.BoundaryAt = step.At
		after = *e
	})
	return after, err
}

// closedBy tells whether the run's session has ended with the step: another executor of
// it has been faster, and when the session ended stays as it is.
func closedBy(e *session.Execution, step mirrorStep, run string) bool {
	return e.Status.Status.Closed() && e.Incarnation == step.incarnation && e.RunID == run && e.BoundaryAt.Equal(step.At)
}

// rebuilt is a session's state as its newest checkpoint and its records have it.
func (b *Boundaries) rebuilt(ctx context.Context, step mirrorStep) (*session.Execution, error) {
	s, err := loadSessionContext(ctx, b.Files, b.Sessions, step.head)
	if err != nil {
		return nil, err
	}
	c := s.checkpoint
	e := &session.Execution{
		Status: session.NewStatus(s.key.Session, s.team), Schema: session.ExecutionSchema, Namespace: s.key.Namespace,
		Store: b.Sessions.ID(), RunID: s.run, OriginalRun: step.OriginalRun, Course: step.Course,
	}
	e.Incarnation, e.Origin, e.Decisions = step.incarnation, c.Origin, maps.Clone(c.Decisions)
	if e.StartedAt, err = b.startedAt(ctx, c); err != nil {
		return nil, err
	}
	for _, id := range s.team.Assignments() {
		status, err := b.statusOf(s, id)
		if err != nil {
			return nil, err
		}
		*e.Assignment(id) = status
	}
	for i, p := range e.Phases {
		switch {
		case slices.ContainsFunc(step.help, func(h session.HelpRequest) bool { return h.Kind == session.ForApproval && h.Phase == p.Name }):
			e.Phases[i].Status = session.AwaitingApproval
		case slices.ContainsFunc(c.Assignments, func(a session.CheckpointAssignment) bool { return a.Phase == p.Name }):
			e.Phases[i].Status = p.Done(session.Completed)
		case slices.ContainsFunc(p.Assignments, func(a session.AssignmentStatus) bool { return a.Status != session.Pending }):
			e.Phases[i].Status = session.Running
		}
	}
	e.Stand()
	e.Advance(c.CurrentPhase, step.head, c.Tree, step.At)
	e.Usage = e.Sum()
	return e, nil
}

// statusOf is where an assignment stands by the checkpoint or, if that does not have
// it, by its record.
func (b *Boundaries) statusOf(s sessionContext, id spec.AssignmentID) (session.AssignmentStatus, error) {
	for _, a := range slices.Concat(s.checkpoint.Assignments, s.checkpoint.Partial) {
		if a.AssignmentID == id {
			return assignmentStatus(a), nil
		}
	}
	none := session.AssignmentStatus{Persona: id.Persona, Status: session.Pending, Failures: []session.AttemptFailure{}}
	record, err := b.Sessions.Record(s.key, id)
	switch {
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrCorrupt):
		return none, nil
	case err != nil:
		return none, err
	case len(record.Rounds) == 0:
		return none, nil
	}
	status, last := record.Status(), record.Rounds[len(record.Rounds)-1]
	switch {
	case last.Stale: // it was sent back, and is yet to be done again
		status.Status, status.Summary = session.Pending, ""
	case last.GaveUp:
		status.Status = session.Waiting
	}
	return status, nil
}

// startedAt is when the checkpoint's incarnation began: the time of its first one.
func (b *Boundaries) startedAt(ctx context.Context, c session.Checkpoint) (*time.Time, error) {
	for c.Previous != "" {
		before, err := b.Sessions.Checkpoint(ctx, c.Previous)
		switch {
		case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrCorrupt):
			return &c.CreatedAt, nil // pruned, or lost: this is the oldest that is left
		case err != nil:
			return nil, err
		case before.Incarnation != c.Incarnation || before.Session != c.Session:
			return &c.CreatedAt, nil
		}
		c = before
	}
	return &c.CreatedAt, nil
}
