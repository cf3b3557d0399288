package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/core/cost"
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

// sessionContext is the loaded state of an activity's session: a checkpoint, and the team
// that the checkpoint names.
type sessionContext struct {
	key        session.Key
	checkpoint session.Checkpoint
	team       spec.Team
}

// loadSessionContext reads the checkpoint and its team from the store.
func loadSessionContext(ctx context.Context, sessions Sessions, head spec.Digest) (sessionContext, error) {
	info := activity.GetInfo(ctx)
	s := sessionContext{key: sessionKey(info)}
	var err error
	if s.checkpoint, err = sessions.Checkpoint(ctx, head); err != nil {
		return s, fmt.Errorf("read checkpoint %s: %w", head.Short(), err)
	}
	s.team, err = sessions.Team(ctx, s.checkpoint.Team.Blob)
	return s, err
}

// done indexes the finished assignments: the checkpoint's and, over them, more.
func (s sessionContext) done(more []session.CheckpointAssignment) map[spec.AssignmentID]session.CheckpointAssignment {
	done := map[spec.AssignmentID]session.CheckpointAssignment{}
	for _, a := range s.checkpoint.Assignments {
		done[a.AssignmentID] = a
	}
	for _, a := range more {
		done[a.AssignmentID] = a
	}
	return done
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

func (b *Boundaries) mergeBase(s sessionContext) mergeBase {
	return mergeBase{b.Files, s.team, s.checkpoint.Workspace, s.checkpoint.Given}
}

// mergeBase is the workspace and the decisions onto which a session's work is merged.
type mergeBase struct {
	files     Files
	team      spec.Team
	workspace spec.Digest
	// given are decisions from the start of the session.
	given map[string]string
}

// extend is fill for a checkpoint that has all work except that of a phase. If the phase depends
// on all other work, only the phase's work is merged, onto the checkpoint's tree: it is the last
// step, and resolves the conflicts of the work before it.
func (g mergeBase) extend(ctx context.Context, c *session.Checkpoint, phase string,
	done map[spec.AssignmentID]session.CheckpointAssignment,
) ([]session.Conflict, error) {
	if !covers(g.team.Ancestors(phase), c.Assignments) {
		return g.fill(ctx, c, done)
	}
	onto := mergeBase{g.files, g.team, c.Tree, c.Decisions}
	folded, steps, err := onto.fold(ctx, []string{phase}, done)
	switch {
	case err != nil:
		return nil, err
	case len(steps) == 0:
		return g.fill(ctx, c, done)
	}
	c.Tree = folded.Manifest
	c.Decisions, _ = session.MergeDecisions(onto.given, steps)
	g.list(c, done)
	c.Artifacts, err = g.addArtifacts(ctx, c.Tree, c.Artifacts, steps)
	return folded.Conflicts, err
}

// fill sets the work of a checkpoint, its tree, decisions and usage. It returns the
// conflicts of the work.
func (g mergeBase) fill(ctx context.Context, c *session.Checkpoint,
	done map[spec.AssignmentID]session.CheckpointAssignment,
) ([]session.Conflict, error) {
	folded, steps, err := g.fold(ctx, g.team.PhaseNames(), done)
	if err != nil {
		return nil, err
	}
	c.Tree = folded.Manifest
	c.Decisions, _ = session.MergeDecisions(g.given, steps)
	g.list(c, done)
	c.Artifacts, err = g.files.Artifacts(ctx, steps)
	return folded.Conflicts, err
}

// fold merges the work of the phases onto the workspace, and finds the conflicting
// paths and decisions.
func (g mergeBase) fold(ctx context.Context, phases []string,
	done map[spec.AssignmentID]session.CheckpointAssignment,
) (session.Folded, []session.Step, error) {
	steps := session.Steps(g.team, phases, done)
	folded, err := g.files.Fold(ctx, g.workspace, steps)
	if err != nil {
		return session.Folded{}, nil, err
	}
	_, conflicts := session.MergeDecisions(g.given, steps)
	folded.Conflicts = append(folded.Conflicts, conflicts...)
	return folded, steps, nil
}

// list gives a checkpoint the assignments that are done, and what they have cost.
func (g mergeBase) list(c *session.Checkpoint, done map[spec.AssignmentID]session.CheckpointAssignment) {
	c.Assignments, c.Usage = []session.CheckpointAssignment{}, cost.Usage{}
	for _, id := range g.team.Assignments() {
		if a, ok := done[id]; ok {
			c.Assignments = append(c.Assignments, withBasisDigest(a))
			c.Usage = c.Usage.Add(a.Usage)
		} else if a, ok := c.Undone(id); ok { // it has cost what it has cost
			c.Usage = c.Usage.Add(a.Usage)
		}
	}
}

// withBasisDigest sets InputDigest from the basis, unless it is set.
func withBasisDigest(a session.CheckpointAssignment) session.CheckpointAssignment {
	if a.Basis != nil && a.InputDigest == "" {
		a.InputDigest = a.Basis.Digest()
	}
	return a
}

// addArtifacts lists those that are still in the tree, and what the steps have left.
func (g mergeBase) addArtifacts(ctx context.Context, tree spec.Digest, before []session.Artifact,
	steps []session.Step,
) ([]session.Artifact, error) {
	left, err := g.files.Artifacts(ctx, steps)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, a := range before {
		paths = append(paths, a.Path)
	}
	held, err := g.files.Held(ctx, tree, paths)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(left)
	for _, a := range before {
		_, there := slices.BinarySearch(held, a.Path)
		_, replaced := slices.BinarySearchFunc(left, a.Path,
			func(l session.Artifact, path string) int { return strings.Compare(l.Path, path) })
		if there && !replaced {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b session.Artifact) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// WriteStatus writes the session's status. After it has returned, a checkpoint has the person's answer:
// who, when and why.
func (b *Boundaries) WriteStatus(ctx context.Context, in WriteStatusInput) (WrittenStatus, error) {
	if in.Answer == nil || in.Status.Checkpoint == "" {
		_, err := b.write(ctx, in.Boundary, nil)
		return WrittenStatus{}, b.failed(ctx, err)
	}
	out, err := b.keepAnswer(ctx, in)
	return out, b.failed(ctx, err)
}

// keepAnswer writes a boundary whose checkpoint has an answer.
func (b *Boundaries) keepAnswer(ctx context.Context, in WriteStatusInput) (out WrittenStatus, err error) {
	s, err := b.session(ctx, in.Status.Checkpoint)
	if err != nil {
		return WrittenStatus{}, err
	}
	c := nextCheckpoint(ctx, s.checkpoint, in.Boundary)
	c.Answers = withAnswer(c, *in.Answer)
	nothing, err := b.Files.Overlay(ctx, c.Workspace, c.Workspace)
	if err != nil {
		return WrittenStatus{}, err
	}
	head, err := b.write(ctx, in.Boundary, &c)
	return WrittenStatus{Head: head, Nothing: nothing.Delta}, err
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
		return b.Request == a.Request && a.SamePerson(b)
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
	return out, storeError(ctx, err)
}

// covers reports whether all assignments belong to the phases.
func covers(phases []string, assignments []session.CheckpointAssignment) bool {
	return !slices.ContainsFunc(assignments, func(a session.CheckpointAssignment) bool {
		return !slices.Contains(phases, a.Phase)
	})
}

// without returns the work without that of some phases.
func without(work []session.CheckpointAssignment, phases []string) []session.CheckpointAssignment {
	return slices.DeleteFunc(slices.Clone(work),
		func(a session.CheckpointAssignment) bool { return slices.Contains(phases, a.Phase) })
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

// write writes a boundary after the first one. A session that a restored database does not have is admitted again.
func (b *Boundaries) write(ctx context.Context, at Boundary, c *session.Checkpoint, undone ...string) (spec.Digest, error) {
	w := boundaryWriter{b.Sessions, b.State, b.Observer}
	head, err := w.writeBoundary(ctx, at, c, undone...)
	if !errors.Is(err, errUnknownSession) {
		return head, err
	}
	s, err := loadSessionContext(ctx, b.Sessions, at.Status.Checkpoint)
	if err == nil {
		err = s.admitAgain(ctx, b.State)
	}
	if err != nil {
		return "", err
	}
	return w.writeBoundary(ctx, at, c, undone...)
}

// admitAgain admits a session that a restored database does not have.
func (s sessionContext) admitAgain(ctx context.Context, db State) error {
	activity.GetLogger(ctx).Warn("the database was restored and does not have the session; it is admitted again")
	_, err := db.Admit(ctx, admissionOf(s.key, activity.GetInfo(ctx), s.team))
	return err
}

// errUnknownSession: the database does not have the session, because it was restored.
var errUnknownSession = errors.New("the database does not have the session")

// boundaryWriter writes the boundaries of a session.
type boundaryWriter struct {
	sessions Sessions
	state    State
	observer Observer
}

// writeBoundary writes a boundary: the session's status and, if there is one, its checkpoint with the answers that are
// new in it. undone are phases whose work was sent back. It returns the checkpoint's digest, and reports the requests that are
// new. A late boundary changes nothing. The error is errUnknownSession if the database does not have the session.
func (w boundaryWriter) writeBoundary(ctx context.Context, at Boundary, c *session.Checkpoint, undone ...string,
) (head spec.Digest, err error) {
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
	}
	opened, _, err := w.state.PutBoundary(ctx, rows)
	switch {
	case errors.Is(err, state.ErrNotFound):
		return "", errors.Join(errUnknownSession, err)
	case err != nil:
		return "", err
	}
	failpoint.Here("checkpoint stored, not mirrored")
	for _, r := range opened {
		logRequest(ctx, r)
		if r.Kind == session.ForHelp {
			w.observer.HelpRequested(r.Category)
		}
	}
	return head, w.sessions.Mirror(ctx, rows.Key)
}

// failed returns the error of a boundary. It is retried after a wait if the store cannot be
// used.
func (b *Boundaries) failed(ctx context.Context, err error) error {
	if err != nil && !isPermanent(err) {
		attempt := int(activity.GetInfo(ctx).Attempt)
		b.Observer.StoreWaited(spec.Backoff(textfmt.Duration(storeWait), textfmt.Duration(storeWaitMax), attempt).Std())
	}
	return storeError(ctx, err)
}

// end sets the state in the status of a boundary at which the session ends.
func (at *Boundary) end(state session.State) {
	at.Status.Status, at.Status.ClosedAt = state, &at.At
}

// Close writes how a session ended and its total cost, including calls whose worker was
// lost. It fails as long as that cannot be written.
func (b *Boundaries) Close(ctx context.Context, in CloseInput) error {
	if in.Status.Status != session.Completed {
		if err := b.lostCalls().endAll(ctx, sessionKey(activity.GetInfo(ctx))); err != nil {
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
	b.Observer.SessionEnded(s.Team, s.Status)
	used := s.Usage
	if costs, err := b.State.Costs(ctx, sessionKey(activity.GetInfo(ctx)), "phase"); err == nil {
		used = state.Sum(costs, spec.AssignmentID{}).Usage
	}
	logEnd(ctx, s.Team, s.Status, s.Reason, used)
}

func (b *Boundaries) lostCalls() lostCalls {
	return lostCalls{b.State, b.Sessions, b.Programs, b.WorkDirs, nil}
}
