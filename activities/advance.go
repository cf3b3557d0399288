package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Boundaries writes what is between phases: checkpoints and the session's status.
type Boundaries struct {
	Files    Files
	Sessions Sessions
	Ledgers  Ledgers
	// Programs reads in WorkDirs the usage of calls that were cut off; nil: nobody does.
	Programs ProgramUsage
	WorkDirs WorkDirs
	// Breakers hears what it has yet to hear of earlier rounds; nil where there
	// are none.
	Breakers Breakers
	// Observer records sessions that end.
	Observer Observer
	Clock    Clock
}

// Advance adds a finished phase to the session: it folds its work into the tree,
// writes the checkpoint and the status, and says what the next phases start from. It is
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
	failpoint.Here("advance before its checkpoint")
	head, err := b.Sessions.PutCheckpoint(ctx, s.key, next)
	if err != nil {
		return Advanced{}, b.failed(ctx, err)
	}
	failpoint.Here("advance after its checkpoint")
	out := Advanced{Head: head, Decisions: next.Decisions, Inputs: map[string]spec.Digest{}, Conflicts: map[string][]session.Conflict{}, Merged: map[string]spec.Digest{}}
	for _, phase := range in.Ready {
		input := session.Folded{Manifest: next.Tree, Conflicts: conflicts}
		if above := s.team.Ancestors(phase); !covers(above, next.Assignments) {
			if input, _, err = b.mergeBase(s).fold(ctx, above, s.done(in.Assignments)); err != nil {
				return Advanced{}, b.failed(ctx, err)
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
	completes := in.Complete && len(conflicts) == 0
	in.Status.Checkpoint, in.Status.Decisions = head, next.Decisions
	if completes {
		in.end(session.Completed)
	}
	if err := b.write(ctx, in.Boundary); err != nil {
		return Advanced{}, b.failed(ctx, err)
	}
	activity.GetLogger(ctx).Info("phase completed", "checkpoint", head)
	if completes {
		b.ended(ctx, in.Status)
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
	s, err := loadSessionContext(ctx, b.Sessions, head)
	if err == nil {
		err = b.owned(s.key, s.checkpoint.Incarnation)
	}
	return s, err
}

// owned refuses an incarnation that a later one has followed.
func (b *Boundaries) owned(key session.Key, incarnation int) error {
	newest, err := b.Sessions.Incarnation(key)
	switch {
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrCorrupt):
		return nil // the next boundary writes it anew
	case err != nil:
		return err
	case newest > incarnation:
		return fmt.Errorf("session %s is in incarnation %d, this is %d: %w", key.Session, newest, incarnation, session.ErrFenced)
	}
	return nil
}

// next is the checkpoint after the phase, and what its work disagrees on.
func (b *Boundaries) next(ctx context.Context, s sessionContext, in AdvanceInput) (session.Checkpoint, []session.Conflict, error) {
	c := following(ctx, s.checkpoint, in.Boundary)
	c.CurrentPhase = in.Phase
	c.Partial = without(c.Partial, []string{in.Phase})
	c.Reworks = slices.Clone(c.Reworks)
	for i, r := range c.Reworks {
		c.Reworks[i].Open = slices.DeleteFunc(slices.Clone(r.Open), func(open string) bool { return open == in.Phase })
	}
	conflicts, err := b.mergeBase(s).extend(ctx, &c, in.Phase, s.done(in.Assignments))
	return c, conflicts, err
}

// following is the checkpoint after one, with nothing changed yet.
func following(ctx context.Context, c session.Checkpoint, at Boundary) session.Checkpoint {
	c.Previous, c.CreatedAt = at.Status.Checkpoint, at.At
	c.Temporal = temporalIDs(activity.GetInfo(ctx))
	return c
}

// without leaves the work of phases out.
func without(work []session.CheckpointAssignment, phases []string) []session.CheckpointAssignment {
	return slices.DeleteFunc(slices.Clone(work), func(a session.CheckpointAssignment) bool { return slices.Contains(phases, a.Phase) })
}

func (b *Boundaries) mergeBase(s sessionContext) mergeBase {
	return mergeBase{b.Files, s.team, s.checkpoint.Workspace, s.checkpoint.Given}
}

// Close writes how a session ended, and what it has cost in all: also what nobody
// was left to tell of. It fails as long as that cannot be written.
func (b *Boundaries) Close(ctx context.Context, in CloseInput) error {
	if in.Status.Status != session.Completed {
		b.bookUsage(ctx, in.Status.Phases)
	}
	in.end(in.Status.Status)
	if err := b.write(ctx, in.Boundary); err != nil {
		return b.failed(ctx, err)
	}
	b.ended(ctx, in.Status)
	return nil
}

// ended reports how a session has ended.
func (b *Boundaries) ended(ctx context.Context, s session.Status) {
	observerOrNone(b.Observer).SessionEnded(s.Team, s.Status, s.Help)
	used := s.Usage
	if ledger, err := b.Ledgers.Ledger(sessionKey(activity.GetInfo(ctx))); err == nil {
		used = ledger.Usage()
	}
	logEnd(ctx, s.Team, s.Status, s.Reason, used)
}

// covers reports whether the phases are all that the assignments belong to.
func covers(phases []string, assignments []session.CheckpointAssignment) bool {
	return !slices.ContainsFunc(assignments, func(a session.CheckpointAssignment) bool {
		return !slices.Contains(phases, a.Phase)
	})
}
