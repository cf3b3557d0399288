package activities

import (
	"context"
	"errors"
	"slices"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/failpoint"
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
	for _, phase := range in.Unlocks {
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
	if in.NoneLeft && len(conflicts) > 0 {
		out.Conflicts[in.Phase] = session.FewConflicts(conflicts)
	}
	if in.AwaitsApproval {
		out.Files = firstFew(filesLeftBy(in.Phase, next.Artifacts))
	}
	completes := in.Completes && len(conflicts) == 0
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
func (b *Boundaries) next(ctx context.Context, s sessionContext, in AdvanceInput) (session.Checkpoint, []session.Conflict,
	error,
) {
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
	return slices.DeleteFunc(slices.Clone(work),
		func(a session.CheckpointAssignment) bool { return slices.Contains(phases, a.Phase) })
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

// boundaryWriter writes the boundaries of a session.
type boundaryWriter struct {
	sessions Sessions
	state    State
	observer Observer
	// team reads the session's team, if a restored database does not have the session: then it is admitted again.
	team func() (spec.Team, error)
}

// write writes a boundary: the session's status and, if there is one, its checkpoint with the answers that are
// new in it. undone are phases whose work was sent back. It returns the checkpoint's digest, and reports the requests that are
// new. A late boundary changes nothing.
func (w boundaryWriter) write(ctx context.Context, at Boundary, c *session.Checkpoint, undone ...string) (head spec.Digest,
	err error,
) {
	info := activity.GetInfo(ctx)
	rows := state.Boundary{
		Key: sessionKey(info), TemporalRun: info.WorkflowExecution.RunID, FirstRun: at.FirstRun, At: at.At, Status: at.Status,
		Undone: undone,
	}
	if c != nil {
		row, err := w.sessions.StoreCheckpoint(ctx, rows.Key, *c)
		if err != nil {
			return "", err
		}
		head, rows.Checkpoint, rows.Answers = row.Digest, &row, c.Answers
		failpoint.Here("checkpoint stored, no row")
	}
	var opened []session.Request
	err = admitted(ctx, w.state, rows.Key, w.team, func() (err error) {
		opened, _, err = w.state.PutBoundary(ctx, rows)
		return err
	})
	if err != nil {
		return "", err
	}
	failpoint.Here("checkpoint stored, not mirrored")
	for _, r := range opened {
		logRequest(ctx, r)
		if r.Kind == session.ForHelp {
			observerOrNone(w.observer).HelpRequested(r.Category)
		}
	}
	return head, w.sessions.Mirror(ctx, rows.Key)
}

// admitted writes rows of a session. A session that a restored database does not have is admitted again.
func admitted(ctx context.Context, s State, key session.Key, team func() (spec.Team, error), write func() error) error {
	err := write()
	if !errors.Is(err, state.ErrNotFound) {
		return err
	}
	t, err := team()
	if err != nil {
		return err
	}
	if _, err := s.Admit(ctx, admissionOf(key, activity.GetInfo(ctx), t)); err != nil {
		return err
	}
	return write()
}

// write writes a boundary after the first one.
func (b *Boundaries) write(ctx context.Context, at Boundary, c *session.Checkpoint, undone ...string) (head spec.Digest,
	err error,
) {
	w := boundaryWriter{b.Sessions, b.State, b.Observer, func() (spec.Team, error) {
		s, err := loadSessionContext(ctx, b.Sessions, at.Status.Checkpoint)
		return s.team, err
	}}
	return w.write(ctx, at, c, undone...)
}

// failed returns the error of a boundary. It is retried after a wait if the store cannot be
// used.
func (b *Boundaries) failed(ctx context.Context, err error) error {
	if err != nil && !isPermanent(err) {
		attempt := int(activity.GetInfo(ctx).Attempt)
		observerOrNone(b.Observer).StoreWaited(spec.Backoff(textfmt.Duration(storeWait), textfmt.Duration(storeWaitMax), attempt).Std())
	}
	return storeError(err)
}

// end sets the state in the status of a boundary at which the session ends.
func (at *Boundary) end(state session.State) {
	at.Status.Status, at.Status.ClosedAt = state, &at.At
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
