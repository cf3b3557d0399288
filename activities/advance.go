package activities

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Boundaries writes what is between phases: checkpoints and the session's
// mirrored state.
type Boundaries struct {
	Files    Files
	Sessions Sessions
	Ledgers  Ledgers
	// Programs reads the usage of calls that were cut off; nil: nobody does.
	Programs ProgramUsage
	// Breakers hears what it has yet to hear of earlier rounds; nil where there
	// are none.
	Breakers Breakers
	// Observer hears of sessions that end.
	Observer Observer
	Clock    Clock
}

// Advance adds a finished phase to the session: it folds its work into the tree,
// writes the checkpoint, and says what the next phases start from. It is
// idempotent: another execution writes the same checkpoint again.
func (b *Boundaries) Advance(ctx context.Context, in AdvanceInput) (Advanced, error) {
	s, err := b.session(ctx, in.Head)
	if err != nil {
		return Advanced{}, storeError(err)
	}
	next, conflicts, err := b.next(ctx, s, in)
	if err != nil {
		return Advanced{}, storeError(err)
	}
	failpoint.Here("advance before its checkpoint")
	head, err := b.Sessions.PutCheckpoint(ctx, s.key, next)
	if err != nil {
		return Advanced{}, storeError(err)
	}
	failpoint.Here("advance after its checkpoint")
	out := Advanced{Head: head, Decisions: next.Decisions, Inputs: map[string]spec.Digest{}, Conflicts: map[string][]session.Conflict{}, Merged: map[string]spec.Digest{}}
	for _, phase := range in.Ready {
		input := session.Folded{Manifest: next.Tree, Conflicts: conflicts}
		if above := s.team.Ancestors(phase); !covers(above, next.Assignments) {
			if input, _, err = b.mergeBase(s).fold(ctx, above, s.done(in.Assignments)); err != nil {
				return Advanced{}, storeError(err)
			}
		}
		if len(input.Conflicts) > 0 {
			out.Conflicts[phase], out.Merged[phase] = input.Conflicts, input.Manifest
			continue
		}
		out.Inputs[phase] = input.Manifest
	}
	if in.Last && len(conflicts) > 0 {
		out.Conflicts[in.Phase] = conflicts
	}
	if in.Park {
		out.Left = firstFew(leftBy(in.Phase, next.Artifacts))
	}
	if err := b.mirror(ctx, s, next, head, in, len(conflicts) == 0); err != nil {
		return Advanced{}, storeError(err)
	}
	if in.Complete && len(conflicts) == 0 {
		observerOrNone(b.Observer).SessionEnded(s.team.Name, session.Completed, nil)
	}
	if len(in.Unreported) > 0 {
		out.Unreported = deliverAll(ctx, b.Breakers, in.Unreported)
	}
	return out, nil
}

// leftBy lists the files that a phase has left.
func leftBy(phase string, artifacts []session.Artifact) (paths []string) {
	for _, a := range artifacts {
		if a.Phase == phase {
			paths = append(paths, a.Path)
		}
	}
	return paths
}

// session is what a boundary knows of its session, if no later incarnation has
// followed.
func (b *Boundaries) session(ctx context.Context, head spec.Digest) (sessionContext, error) {
	s, err := loadSessionContext(ctx, b.Files, b.Sessions, head)
	if err == nil {
		err = b.owned(s.key, s.checkpoint.Incarnation)
	}
	return s, err
}

// owned refuses an incarnation that a later one has followed.
func (b *Boundaries) owned(key session.Key, incarnation int) error {
	e, err := b.Sessions.Execution(key)
	switch {
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrCorrupt):
		return nil // a lost mirror is written anew
	case err != nil:
		return err
	case e.Incarnation > incarnation:
		return fmt.Errorf("session %s is in incarnation %d, this is %d: %w", key.Session, e.Incarnation, incarnation, session.ErrFenced)
	}
	return nil
}

// next is the checkpoint after the phase, and what its work disagrees on.
func (b *Boundaries) next(ctx context.Context, s sessionContext, in AdvanceInput) (session.Checkpoint, []session.Conflict, error) {
	c := following(ctx, s.checkpoint, in.Head, in.Boundary)
	c.CurrentPhase = in.Phase
	c.Partial = without(c.Partial, []string{in.Phase})
	c.Reworks = slices.Clone(c.Reworks)
	for i, r := range c.Reworks {
		c.Reworks[i].Open = slices.DeleteFunc(slices.Clone(r.Open), func(open string) bool { return open == in.Phase })
	}
	conflicts, err := b.mergeBase(s).fill(ctx, &c, s.done(in.Assignments))
	return c, conflicts, err
}

// following is the checkpoint after one, with nothing changed yet.
func following(ctx context.Context, c session.Checkpoint, head spec.Digest, at Boundary) session.Checkpoint {
	c.Previous, c.CreatedAt = head, at.At
	c.Temporal, c.SHA256 = temporalIDs(activity.GetInfo(ctx)), ""
	return c
}

// without leaves the work of phases out.
func without(work []session.CheckpointAssignment, phases []string) []session.CheckpointAssignment {
	return slices.DeleteFunc(slices.Clone(work), func(a session.CheckpointAssignment) bool { return slices.Contains(phases, a.Phase) })
}

func (b *Boundaries) mergeBase(s sessionContext) mergeBase {
	return mergeBase{b.Files, s.team, s.checkpoint.Workspace, s.checkpoint.Given}
}

// mirror brings execution_state.json up to date. It may lag until the session ends: the
// next change catches up.
func (b *Boundaries) mirror(ctx context.Context, s sessionContext, c session.Checkpoint, head spec.Digest, in AdvanceInput, agreed bool) error {
	var asked []session.HelpRequest
	after, err := b.updateMirror(ctx, mirrorStep{in.Boundary, c.Incarnation, in.Head, in.Help}, func(e *session.Execution) {
		asked = e.Help
		for _, a := range c.Assignments {
			if status := e.Assignment(a.AssignmentID); status != nil {
				*status = assignmentStatus(a)
			}
		}
		for i, p := range e.Phases {
			if !p.Status.Done() && !slices.ContainsFunc(p.Assignments, func(a session.AssignmentStatus) bool { return !a.Status.Done() }) {
				e.Phases[i].Status = p.Done(session.Completed)
			}
			if in.Park && p.Name == in.Phase {
				e.Phases[i].Status, e.Reason = session.AwaitingApproval, parkedReason(in.Phase)
				e.Help = append([]session.HelpRequest{}, in.Help...)
			}
		}
		e.Stand()
		now := b.Clock().UTC()
		e.Incarnation, e.RunID = c.Incarnation, s.run
		e.Advance(c.CurrentPhase, head, c.Tree, now)
		e.Decisions, e.Usage = maps.Clone(c.Decisions), e.Sum()
		if in.Complete && agreed {
			e.Status.Status, e.ClosedAt = session.Completed, &now
		}
	})
	if err != nil && in.Complete { // nothing would catch up
		return err
	}
	if err != nil {
		activity.GetLogger(ctx).Warn("execution_state.json is out of date", "error", err)
	}
	activity.GetLogger(ctx).Info("phase sealed", "checkpoint", head)
	if in.Park {
		logHelp(ctx, asked, in.Help)
	}
	if in.Complete && agreed {
		logEnd(ctx, s.team.Name, session.Completed, "", after.Usage)
	}
	return nil
}

// parkedReason says what a session waits for that parks after a phase.
func parkedReason(phase string) string {
	return "phase " + phase + " is done; the session waits for an approval or `maestro resume`"
}

// Close writes how a session ended, and what it has cost in all: also what nobody
// was left to tell of. It fails as long as that cannot be written.
func (b *Boundaries) Close(ctx context.Context, in CloseInput) error {
	key := sessionKey(activity.GetInfo(ctx))
	now := b.Clock().UTC()
	mirrored, err := b.Sessions.Execution(key)
	if err != nil {
		activity.GetLogger(ctx).Warn("execution_state.json cannot be read", "error", err)
	}
	spent := map[spec.AssignmentID]cost.Usage{}
	if in.Status != session.Completed {
		spent = b.finalUsage(ctx, key, mirrored.Phases)
	}
	after, err := b.updateMirror(ctx, mirrorStep{in.Boundary, in.Incarnation, in.Head, in.Help}, func(e *session.Execution) {
		e.Status.Status, e.Reason, e.ClosedAt, e.UpdatedAt = in.Status, in.Reason, &now, now
		e.Help = append([]session.HelpRequest{}, in.Help...)
		for i := range e.Phases {
			e.Phases[i].Close(in.Help)
		}
		for id, total := range spent {
			if a := e.Assignment(id); a != nil {
				a.Usage = total
			}
		}
		e.Usage = e.Sum()
	})
	if err != nil { // nothing would catch up
		return storeError(err)
	}
	observerOrNone(b.Observer).SessionEnded(mirrored.Team, in.Status, in.Help)
	logHelp(ctx, mirrored.Help, in.Help)
	logEnd(ctx, mirrored.Team, in.Status, in.Reason, after.Usage)
	return nil
}

func assignmentStatus(a session.CheckpointAssignment) session.AssignmentStatus {
	return session.AssignmentStatus{
		Persona: a.Persona, Status: a.Status, Agent: a.Agent, Rounds: a.Rounds, Attempts: a.Attempts, LostWorkers: a.Lost,
		Usage: a.Usage, Failures: append([]session.AttemptFailure{}, a.Failures...), Summary: a.Summary,
	}
}

// covers tells whether the phases are all that the assignments belong to.
func covers(phases []string, assignments []session.CheckpointAssignment) bool {
	return !slices.ContainsFunc(assignments, func(a session.CheckpointAssignment) bool {
		return !slices.Contains(phases, a.Phase)
	})
}
