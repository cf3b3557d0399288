package activities

import (
	"context"
	"slices"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// Mark writes the session's status. After it has returned, a checkpoint has the person's answer:
// who, when and why.
func (b *Boundaries) Mark(ctx context.Context, in MarkInput) (Marked, error) {
	if in.Answer == nil || in.Status.Checkpoint == "" {
		_, err := b.write(ctx, in.Boundary, nil)
		return Marked{}, b.failed(ctx, err)
	}
	out, err := b.keepAnswer(ctx, in)
	return out, b.failed(ctx, err)
}

// keepAnswer writes a boundary whose checkpoint has an answer.
func (b *Boundaries) keepAnswer(ctx context.Context, in MarkInput) (out Marked, err error) {
	s, err := b.session(ctx, in.Status.Checkpoint)
	if err != nil {
		return Marked{}, err
	}
	c := nextCheckpoint(ctx, s.checkpoint, in.Boundary)
	c.Answers = withAnswer(c, *in.Answer)
	nothing, err := b.Files.Overlay(ctx, c.Workspace, c.Workspace)
	if err != nil {
		return Marked{}, err
	}
	head, err := b.write(ctx, in.Boundary, &c)
	return Marked{Head: head, Nothing: nothing.Delta}, err
}

// withAnswer returns the answers with a new one. An approval, and the choice of the later version
// of a conflict, record the digest of the work that they are for. Several persons may approve in
// answer to one request.
func withAnswer(c session.Checkpoint, a session.Answer) []session.Answer {
	switch {
	case a.Action == session.AnswerApprove:
		a.Work = c.WorkOf(a.Phase)
	case a.Action == session.AnswerSkip && !a.CountsAsDone:
		a.Work = c.WorkOf("")
	}
	earlier := slices.DeleteFunc(slices.Clone(c.Answers), func(b session.Answer) bool {
		return b.Request == a.Request &&
			a.SamePerson(b)
	})
	return append(earlier, a)
}

// Raise adds to a budget of the session. The calls that wait for it see it at once.
func (b *Boundaries) Raise(ctx context.Context, in RaiseInput) (Raised, error) {
	out := Raised{Scope: in.Scope}
	raised, err := b.State.AddRaise(ctx, sessionKey(activity.GetInfo(ctx)), in.Raise, "update")
	if raised != nil {
		out.Cap, out.Spent = raised.Cap, raised.Held()
	}
	return out, storeError(err)
}
