package activities

import (
	"context"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

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
	in.Status.Decisions = c.Decisions
	head, err := b.write(ctx, in.Boundary, &c, in.Rework.Open...)
	if err != nil {
		return Reworked{}, b.failed(ctx, err)
	}
	return Reworked{Head: head, Input: input}, nil
}

// undone returns the checkpoint after work was sent back, and the input of the phase.
func (b *Boundaries) undone(ctx context.Context, s sessionContext, in ReworkInput) (session.Checkpoint, spec.Digest, error) {
	c := nextCheckpoint(ctx, s.checkpoint, in.Boundary)
	rework := in.Rework
	for _, a := range slices.Concat(in.Left, c.Assignments, c.Partial) { // restored work may be among what is left, too
		known := slices.ContainsFunc(rework.Undone,
			func(u session.CheckpointAssignment) bool { return u.AssignmentID == a.AssignmentID })
		if !known && slices.Contains(rework.Open, a.Phase) {
			rework.Undone = append(rework.Undone, a)
		}
	}
	if in.Answer != nil {
		c.Answers = withAnswer(c, *in.Answer)
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
