package activities

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/team"
)

// mirrorStep is a step between phases that changes execution_state.json.
type mirrorStep struct {
	Boundary
	incarnation int
	// head is the newest checkpoint before the step.
	head team.Digest
	// help is all that a person is needed for.
	help []team.HelpRequest
}

// updateMirror has a step change execution_state.json, unless the session is past the step.
// A state that is missing or damaged is made again first, from the checkpoint and the
// records. after is the state as it then is.
func (b *Boundaries) updateMirror(ctx context.Context, step mirrorStep, change func(*team.Execution)) (after team.Execution, err error) {
	info := activity.GetInfo(ctx)
	key := sessionKey(info)
	var lost *team.Execution
	stored, err := b.Sessions.Execution(key)
	switch {
	case errors.Is(err, team.ErrNotFound), errors.Is(err, team.ErrCorrupt), err == nil && len(stored.Phases) == 0:
		lost, err = b.rebuilt(ctx, step)
		if err != nil && !lasting(err) {
			return after, fmt.Errorf("make execution_state.json again: %w", err)
		}
		if err != nil { // what it would be made from is lost, too
			activity.GetLogger(ctx).Warn("execution_state.json cannot be made again", "error", err)
		}
	case err != nil:
		return after, err
	}
	err = b.Sessions.UpdateExecution(key, func(e *team.Execution) {
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
func closedBy(e *team.Execution, step mirrorStep, run string) bool {
	return e.Status.Status.Closed() && e.Incarnation == step.incarnation && e.RunID == run && e.BoundaryAt.Equal(step.At)
}

// rebuilt is a session's state as its newest checkpoint and its records have it.
func (b *Boundaries) rebuilt(ctx context.Context, step mirrorStep) (*team.Execution, error) {
	s, err := loadScene(ctx, b.Files, b.Sessions, step.head)
	if err != nil {
		return nil, err
	}
	c := s.checkpoint
	e := &team.Execution{
		Status: team.NewStatus(s.key.Session, s.team), Schema: team.ExecutionSchema, Namespace: s.key.Namespace,
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
		case slices.ContainsFunc(step.help, func(h team.HelpRequest) bool { return h.Kind == team.ForApproval && h.Phase == p.Name }):
			e.Phases[i].Status = team.AwaitingApproval
		case slices.ContainsFunc(c.Assignments, func(a team.CheckpointAssignment) bool { return a.Phase == p.Name }):
			e.Phases[i].Status = p.Done(team.Completed)
		case slices.ContainsFunc(p.Assignments, func(a team.AssignmentStatus) bool { return a.Status != team.Pending }):
			e.Phases[i].Status = team.Running
		}
	}
	e.Stand()
	e.Advance(c.CurrentPhase, step.head, c.Tree, step.At)
	e.Usage = e.Sum()
	return e, nil
}

// statusOf is where an assignment stands by the checkpoint or, if that does not have
// it, by its record.
func (b *Boundaries) statusOf(s scene, id team.AssignmentID) (team.AssignmentStatus, error) {
	for _, a := range slices.Concat(s.checkpoint.Assignments, s.checkpoint.Partial) {
		if a.AssignmentID == id {
			return assignmentStatus(a), nil
		}
	}
	none := team.AssignmentStatus{Persona: id.Persona, Status: team.Pending, Failures: []team.AttemptFailure{}}
	record, err := b.Sessions.Record(s.key, id)
	switch {
	case errors.Is(err, team.ErrNotFound), errors.Is(err, team.ErrCorrupt):
		return none, nil
	case err != nil:
		return none, err
	case len(record.Rounds) == 0:
		return none, nil
	}
	status, last := record.Status(), record.Rounds[len(record.Rounds)-1]
	switch {
	case last.Stale: // it was sent back, and is yet to be done again
		status.Status, status.Summary = team.Pending, ""
	case last.GaveUp:
		status.Status = team.Waiting
	}
	return status, nil
}

// startedAt is when the checkpoint's incarnation began: the time of its first one.
func (b *Boundaries) startedAt(ctx context.Context, c team.Checkpoint) (*time.Time, error) {
	for c.Previous != "" {
		before, err := b.Sessions.Checkpoint(ctx, c.Previous)
		switch {
		case errors.Is(err, team.ErrNotFound), errors.Is(err, team.ErrCorrupt):
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
