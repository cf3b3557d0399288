package activities

import (
	"context"
	"maps"
	"slices"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Mark writes that a session parks, or that a parked one goes on. An answer that
// it goes on at is in a checkpoint once Mark has returned: who, when and why. The
// mirrored state may lag.
func (b *Boundaries) Mark(ctx context.Context, in MarkInput) (Marked, error) {
	var out Marked
	if in.Answer != nil && in.Head != "" {
		var err error
		if out, err = b.keepAnswer(ctx, in); err != nil {
			return Marked{}, storeError(err)
		}
	}
	b.mirrorHelp(ctx, in, func(e *session.Execution) {
		for i, p := range e.Phases {
			if p.Name == in.Phase && p.Status == session.AwaitingApproval {
				e.Phases[i].Status = p.Done(session.Completed)
			}
		}
		if a := in.Answer; a != nil {
			if of := e.Assignment(spec.AssignmentID{Phase: a.Phase, Persona: a.Persona}); of != nil {
				of.Awaits = nil // the wait for a breaker that it ends is told too late to write so
				if a.Settles {  // nor will a round
					of.Status = session.Skipped
				}
			}
		}
		if out.Head != "" {
			e.Head, e.Checkpoint = out.Head, out.Head
		}
	})
	return out, nil
}

// keepAnswer adds an answer to the chain of checkpoints.
func (b *Boundaries) keepAnswer(ctx context.Context, in MarkInput) (Marked, error) {
	s, err := b.session(ctx, in.Head)
	if err != nil {
		return Marked{}, err
	}
	c := following(ctx, s.checkpoint, in.Head, in.Boundary)
	c.Answers = answered(c, *in.Answer)
	var out Marked
	if out.Head, err = b.Sessions.PutCheckpoint(ctx, s.key, c); err != nil {
		return Marked{}, err
	}
	nothing, err := b.Files.Overlay(ctx, c.Workspace, c.Workspace)
	out.Nothing = nothing.Delta
	return out, err
}

// answered is what people have said by now. An approval, and the choice of the later
// version of a conflict, record the digest of the work that they are for.
func answered(c session.Checkpoint, a session.Answer) []session.Answer {
	switch {
	case a.Verb.Approves():
		a.Work = c.WorkOf(a.Phase)
	case a.Verb == session.AnswerSkip && !a.Settles:
		a.Work = c.WorkOf("")
	}
	earlier := slices.DeleteFunc(slices.Clone(c.Answers), func(b session.Answer) bool { return b.Request == a.Request })
	return append(earlier, a)
}

// Rework sends a phase's work back: it and what builds on it leave the checkpoint,
// which keeps them as undone, and their recorded results count as stale from now
// on. Doing it again writes the same link of the chain once more.
func (b *Boundaries) Rework(ctx context.Context, in ReworkInput) (Reworked, error) {
	s, err := b.session(ctx, in.Head)
	if err != nil {
		return Reworked{}, storeError(err)
	}
	c, input, err := b.undone(ctx, s, in)
	if err != nil {
		return Reworked{}, storeError(err)
	}
	if err := b.markStale(s, in); err != nil {
		return Reworked{}, storeError(err)
	}
	head, err := b.Sessions.PutCheckpoint(ctx, s.key, c)
	if err != nil {
		return Reworked{}, storeError(err)
	}
	b.mirrorHelp(ctx, MarkInput{Boundary: in.Boundary, Incarnation: in.Incarnation, Head: in.Head, Help: in.Help, Reason: in.Reason}, func(e *session.Execution) {
		for _, a := range in.Left {
			if status := e.Assignment(a.AssignmentID); status != nil {
				*status = assignmentStatus(a)
			}
		}
		for i := range e.Phases {
			if slices.Contains(in.Rework.Open, e.Phases[i].Name) {
				reopen(&e.Phases[i])
			}
		}
		e.Head, e.Checkpoint, e.Tree, e.Decisions = head, head, c.Tree, maps.Clone(c.Decisions)
		e.Usage = e.Sum()
	})
	return Reworked{Head: head, Input: input, Decisions: c.Decisions}, nil
}

// undone is the checkpoint after work was sent back, and what the phase starts from.
func (b *Boundaries) undone(ctx context.Context, s sessionContext, in ReworkInput) (session.Checkpoint, spec.Digest, error) {
	c := following(ctx, s.checkpoint, in.Head, in.Boundary)
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

// markStale has no later incarnation take what was sent back for finished.
func (b *Boundaries) markStale(s sessionContext, in ReworkInput) error {
	for _, id := range s.team.Assignments() {
		if !slices.Contains(in.Rework.Open, id.Phase) {
			continue
		}
		if _, err := b.Sessions.UpdateRecord(s.key, id, in.Incarnation, func(r *session.Record) {
			for i := range r.Rounds {
				r.Rounds[i].Stale = r.Rounds[i].Result != nil
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// reopen makes a phase yet to be done again. What it has cost stays.
func reopen(p *session.PhaseStatus) {
	p.Status = session.Pending
	for i := range p.Assignments {
		a := &p.Assignments[i]
		a.Status, a.Summary, a.Progress, a.Awaits = session.Pending, "", "", nil
	}
}

// mirrorHelp brings what a person is needed for in execution_state.json up to date.
// It may lag, so a failure to write it is only logged.
func (b *Boundaries) mirrorHelp(ctx context.Context, in MarkInput, more func(*session.Execution)) {
	info := activity.GetInfo(ctx)
	var asked []session.HelpRequest
	_, err := b.updateMirror(ctx, mirrorStep{in.Boundary, in.Incarnation, in.Head, in.Help}, func(e *session.Execution) {
		run := info.WorkflowExecution.RunID
		if e.Status.Status.Closed() && e.RunID == run {
			return
		}
		if e.Status.Status.Closed() { // the session was reset since
			e.Status.Status, e.ClosedAt = session.Running, nil
		}
		e.RunID = run
		more(e)
		asked = e.Help
		e.Help = append([]session.HelpRequest{}, in.Help...)
		for i := range e.Phases {
			markAsked(&e.Phases[i], in.Help)
		}
		e.Stand()
		e.Reason = in.Reason
	})
	if err != nil {
		activity.GetLogger(ctx).Warn("execution_state.json is out of date", "error", err)
	}
	logHelp(ctx, asked, in.Help)
}

// markAsked makes a phase's assignments stand as the session's requests say. The
// round that parked one has written so itself; but the round that goes on with it
// writes nothing for a while, in which nobody should be sent to help.
func markAsked(p *session.PhaseStatus, help []session.HelpRequest) {
	for i := range p.Assignments {
		a := &p.Assignments[i]
		asked := slices.ContainsFunc(help, func(h session.HelpRequest) bool {
			return h.Phase == p.Name && h.Persona == a.Persona && !h.Kind.NoticeOnly()
		})
		switch {
		case asked:
			a.Status, a.Awaits = session.HelpIsNeeded, nil
		case a.Status == session.HelpIsNeeded && p.Status.Done():
			a.Status = session.Completed
		case a.Status == session.HelpIsNeeded:
			a.Status = session.Running
		}
	}
}
