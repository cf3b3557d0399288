package activities

import (
	"context"
	"errors"
	"slices"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// Boundaries does the steps between phases: it writes checkpoints and the session's status.
type Boundaries struct {
	Files    Files
	Sessions Sessions
	State    State
	// Programs reads in WorkDirs the usage of calls that were cut off; nil: nobody does.
	Programs ProgramUsage
	WorkDirs WorkDirs
	// Breakers receives reports of earlier rounds that were not delivered; nil: there are no
	// breakers.
	Breakers Breakers
	// Observer records sessions that end.
	Observer Observer
	Clock    Clock
}

// Advance adds a finished phase to the session. It merges the phase's work into the tree,
// writes the checkpoint and the status, and returns the inputs of the next phases. It is
// idempotent: another execution writes the same checkpoint again.
func (b *Boundaries) Advance(ctx context.Context, in AdvanceInput) (Advanced, error) {
	s, err := b.session(ctx, in.Status.Checkpoint)
	if err != nil {
		return Advanced{}, b.failed(ctx, err)
	}
	next, conflicts, err := b.next(ctx, s, in)
	if err != nil {
		return Advanced{}, b.failed(ctx, err)
	}
	out := Advanced{Inputs: map[string]spec.Digest{}, Conflicts: map[string][]session.Conflict{}, Merged: map[string]spec.Digest{}}
	for _, phase := range in.Ready {
		input := session.Folded{Manifest: next.Tree, Conflicts: conflicts}
		if above := s.team.Ancestors(phase); !covers(above, next.Assignments) {
			if input, _, err = b.mergeBase(s).fold(ctx, above, s.done(in.Assignments)); err != nil {
				return Advanced{}, b.failed(ctx, err)
			}
		}
		if len(input.Conflicts) > 0 {
			out.Conflicts[phase], out.Merged[phase] = session.FewConflicts(input.Conflicts), input.Manifest
			continue
		}
		out.Inputs[phase] = input.Manifest
	}
	if in.Last && len(conflicts) > 0 {
		out.Conflicts[in.Phase] = session.FewConflicts(conflicts)
	}
	if in.Park {
		out.Left = firstFew(filesLeftBy(in.Phase, next.Artifacts))
	}
	completes := in.Complete && len(conflicts) == 0
	in.Status.Decisions = next.Decisions
	if completes {
		in.end(session.Completed)
	}
	if out.Head, err = b.write(ctx, in.Boundary, &next); err != nil {
		return Advanced{}, b.failed(ctx, err)
	}
	activity.GetLogger(ctx).Info("phase completed", "checkpoint", out.Head)
	if completes {
		b.ended(ctx, in.Status)
	}
	if len(in.Unreported) > 0 {
		out.Unreported = deliverAll(ctx, b.Breakers, in.Unreported)
	}
	return out, nil
}

// filesLeftBy lists the files of a phase's work.
func filesLeftBy(phase string, artifacts []session.Artifact) (paths []string) {
	for _, a := range artifacts {
		if a.Phase == phase {
			paths = append(paths, a.Path)
		}
	}
	return paths
}

// session loads the context of the boundary's session. It fails if there is a later run.
func (b *Boundaries) session(ctx context.Context, head spec.Digest) (sessionContext, error) {
	s, err := loadSessionContext(ctx, b.Sessions, head)
	if err != nil {
		return s, err
	}
	run, err := b.State.Enter(ctx, s.key, activity.GetInfo(ctx).WorkflowExecution.RunID)
	if errors.Is(err, session.ErrNotFound) { // a restored database does not have it; the boundary admits it again
		return s, nil
	}
	s.checkpoint.Run = int(run)
	return s, err
}

// next returns the checkpoint after the phase, and the conflicts of its work.
func (b *Boundaries) next(ctx context.Context, s sessionContext, in AdvanceInput) (session.Checkpoint, []session.Conflict, error) {
	c := nextCheckpoint(ctx, s.checkpoint, in.Boundary)
	c.CurrentPhase = in.Phase
	c.Partial = without(c.Partial, []string{in.Phase})
	c.Reworks = slices.Clone(c.Reworks)
	for i, r := range c.Reworks {
		c.Reworks[i].Open = slices.DeleteFunc(slices.Clone(r.Open), func(open string) bool { return open == in.Phase })
	}
	conflicts, err := b.mergeBase(s).extend(ctx, &c, in.Phase, s.done(in.Assignments))
	return c, conflicts, err
}

// nextCheckpoint returns a copy of a checkpoint for a boundary: Previous is the newest checkpoint before it.
func nextCheckpoint(ctx context.Context, c session.Checkpoint, at Boundary) session.Checkpoint {
	c.Previous, c.CreatedAt = at.Status.Checkpoint, at.At
	c.Temporal = temporalIDs(activity.GetInfo(ctx))
	return c
}

// without returns the work without that of some phases.
func without(work []session.CheckpointAssignment, phases []string) []session.CheckpointAssignment {
	return slices.DeleteFunc(slices.Clone(work), func(a session.CheckpointAssignment) bool { return slices.Contains(phases, a.Phase) })
}

func (b *Boundaries) mergeBase(s sessionContext) mergeBase {
	return mergeBase{b.Files, s.team, s.checkpoint.Workspace, s.checkpoint.Given}
}

// Close writes how a session ended and its total cost, including calls whose worker was
// lost. It fails as long as that cannot be written.
func (b *Boundaries) Close(ctx context.Context, in CloseInput) error {
	if in.Status.Status != session.Completed {
		if err := b.lostCalls().settleAll(ctx, sessionKey(activity.GetInfo(ctx))); err != nil {
			activity.GetLogger(ctx).Warn("the session's cost is not final", "error", err)
		}
	}
	in.end(in.Status.Status)
	if _, err := b.write(ctx, in.Boundary, nil); err != nil {
		return b.failed(ctx, err)
	}
	b.ended(ctx, in.Status)
	return nil
}

// ended reports how a session has ended.
func (b *Boundaries) ended(ctx context.Context, s session.Status) {
	observerOrNone(b.Observer).SessionEnded(s.Team, s.Status)
	used := s.Usage
	if costs, err := b.State.Costs(ctx, sessionKey(activity.GetInfo(ctx)), "phase"); err == nil {
		used = state.Sum(costs, spec.AssignmentID{}).Usage
	}
	logEnd(ctx, s.Team, s.Status, s.Reason, used)
}

func (b *Boundaries) lostCalls() lostCalls {
	return lostCalls{b.State, b.Sessions, b.Programs, b.WorkDirs, nil}
}

// covers reports whether all assignments belong to the phases.
func covers(phases []string, assignments []session.CheckpointAssignment) bool {
	return !slices.ContainsFunc(assignments, func(a session.CheckpointAssignment) bool {
		return !slices.Contains(phases, a.Phase)
	})
}
