package activities

import (
	"context"
	"slices"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Mark writes the session's status. After it has returned, a checkpoint has the person's answer:
// who, when and why.
func (b *Boundaries) Mark(ctx context.Context, in MarkInput) (Marked, error) {
	var out Marked
	if in.Answer != nil && in.Status.Checkpoint != "" {
		var err error
		if out, err = b.keepAnswer(ctx, in); err != nil {
			return Marked{}, b.failed(ctx, err)
		}
		in.Status.Checkpoint = out.Head
	}
	return out, b.failed(ctx, b.write(ctx, in.Boundary))
}

// keepAnswer adds an answer to the chain of checkpoints.
func (b *Boundaries) keepAnswer(ctx context.Context, in MarkInput) (Marked, error) {
	s, err := b.session(ctx, in.Status.Checkpoint)
	if err != nil {
		return Marked{}, err
	}
	c := nextCheckpoint(ctx, s.checkpoint, in.Boundary)
	c.Answers = answered(c, *in.Answer)
	var out Marked
	if out.Head, err = b.Sessions.PutCheckpoint(ctx, s.key, c); err != nil {
		return Marked{}, err
	}
	nothing, err := b.Files.Overlay(ctx, c.Workspace, c.Workspace)
	out.Nothing = nothing.Delta
	return out, err
}

// answered returns the answers with a new one. An approval, and the choice of the later version
// of a conflict, record the digest of the work that they are for. Several persons may approve in
// answer to one request.
func answered(c session.Checkpoint, a session.Answer) []session.Answer {
	switch {
	case a.Action == session.AnswerApprove:
		a.Work = c.WorkOf(a.Phase)
	case a.Action == session.AnswerSkip && !a.CountsAsDone:
		a.Work = c.WorkOf("")
	}
	earlier := slices.DeleteFunc(slices.Clone(c.Answers), func(b session.Answer) bool { return b.Request == a.Request && a.SamePerson(b) })
	return append(earlier, a)
}

// Rework sends a phase's work back. The work of the phase and of the phases that depend on it
// moves to the undone work of the checkpoint, and their recorded results become stale. It is
// idempotent: another execution writes the same checkpoint again.
func (b *Boundaries) Rework(ctx context.Context, in ReworkInput) (Reworked, error) {
	s, err := b.session(ctx, in.Status.Checkpoint)
	if err != nil {
		return Reworked{}, b.failed(ctx, err)
	}
	c, input, err := b.undone(ctx, s, in)
	if err != nil {
		return Reworked{}, b.failed(ctx, err)
	}
	if err := b.markStale(s, in); err != nil {
		return Reworked{}, b.failed(ctx, err)
	}
	head, err := b.Sessions.PutCheckpoint(ctx, s.key, c)
	if err != nil {
		return Reworked{}, b.failed(ctx, err)
	}
	in.Status.Checkpoint, in.Status.Decisions = head, c.Decisions
	if err := b.write(ctx, in.Boundary); err != nil {
		return Reworked{}, b.failed(ctx, err)
	}
	return Reworked{Head: head, Input: input}, nil
}

// undone returns the checkpoint after work was sent back, and the input of the phase.
func (b *Boundaries) undone(ctx context.Context, s sessionContext, in ReworkInput) (session.Checkpoint, spec.Digest, error) {
	c := nextCheckpoint(ctx, s.checkpoint, in.Boundary)
	rework := in.Rework
	for _, a := range slices.Concat(in.Left, c.Assignments, c.Partial) { // restored work may be among what is left, too
		known := slices.ContainsFunc(rework.Undone, func(u session.CheckpointAssignment) bool { return u.AssignmentID == a.AssignmentID })
		if !known && slices.Contains(rework.Open, a.Phase) {
			rework.Undone = append(rework.Undone, a)
		}
	}
	if in.Answer != nil {
		c.Answers = answered(c, *in.Answer)
	}
	c.Reworks = append(slices.Clone(c.Reworks), rework)
	c.Partial = without(c.Partial, rework.Open)
	s.checkpoint.Assignments = without(c.Assignments, rework.Open)
	if _, err := b.mergeBase(s).fill(ctx, &c, s.done(nil)); err != nil {
		return c, "", err
	}
	input, _, err := b.mergeBase(s).fold(ctx, s.team.Ancestors(rework.To), s.done(nil))
	return c, input.Manifest, err
}

// markStale marks the recorded rounds of work that was sent back as stale: they count neither
// as finished nor as interrupted.
func (b *Boundaries) markStale(s sessionContext, in ReworkInput) error {
	for _, id := range s.team.Assignments() {
		if !slices.Contains(in.Rework.Open, id.Phase) {
			continue
		}
		if _, err := b.Sessions.UpdateRecord(s.key, id, in.Status.Incarnation, func(r *session.Record) {
			for i := range r.Rounds {
				r.Rounds[i].Stale = true
			}
		}); err != nil {
			return err
		}
	}
	return nil
}
