package control

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/ops/launch"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/workflows"
)

// Resume are the options of a resumed session.
type Resume struct {
	// Team is the team of the next run; empty: the session's.
	Team TeamInput `json:"team,omitzero"`
	PhaseSelection
	// Force names phases that run, with those that depend on them, although they are finished.
	Force []string `json:"force,omitempty" doc:"phases that run although they are finished, with those that depend on them"`
	// Edits are manifests of files that replace those of finished phases.
	Edits map[string]spec.Digest `json:"edits,omitempty"`
}

// changes reports whether an option changes the session, so that it does not only continue.
func (r Resume) changes() bool {
	return r.Team != (TeamInput{}) || len(r.Force)+len(r.Edits)+len(r.PauseAfter) > 0 || r.given()
}

// OtherStoreError reports that a session belongs to another store.
type OtherStoreError struct {
	Session, Owner string
	// Store is the id of this store, and Where its directory.
	Store, Where string
}

func (e *OtherStoreError) Error() string {
	return fmt.Sprintf("session %s belongs to store %s, not to the store in %s (%s)", e.Session, e.Owner, e.Where, e.Store)
}

// Resume continues a session: one that is paused after a phase continues, and one that has ended, or
// that Temporal no longer has, starts again from the store. With an error, the document names a
// session only if it was started.
func (s Starts) Resume(ctx context.Context, sessionID string, in Resume) (doc Started, err error) {
	err = s.change(ctx, access.Operate, sessionID, access.Event{Action: "session.resume"}, func(ctx context.Context) error {
		doc, err = s.resume(ctx, sessionID, in)
		return err
	})
	return doc, err
}

func (s Starts) resume(ctx context.Context, sessionID string, in Resume) (doc Started, err error) {
	w, info, err := s.described(ctx, sessionID)
	if err != nil {
		return doc, err
	}
	if info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return s.resumeRunning(ctx, w, in)
	}
	l, next, foreseen, err := s.prepareResume(ctx, sessionID, info, in)
	doc.Faults = foreseen.Faults
	if err != nil {
		return doc, err
	}
	if foreseen.Unchanged != "" {
		e, _ := l.Store.State.Execution(ctx, s.key(sessionID))
		return Started{Foreseen: foreseen, RunID: e.RunID, Store: l.Store.ID(), Admitted: true}, nil
	}
	if err := l.Check(ctx, next); err != nil {
		return doc, startError(err)
	}
	doc, err = startAndAwait(ctx, l, next, true)
	doc.Faults = foreseen.Faults
	return doc, startError(err)
}

// PreviewResume describes what Resume would do.
func (s Starts) PreviewResume(ctx context.Context, sessionID string, in Resume) (doc Foreseen, err error) {
	if err := s.may(ctx, access.Operate, sessionID); err != nil {
		return doc, err
	}
	w, info, err := s.described(ctx, sessionID)
	if err != nil {
		return doc, err
	}
	if info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		_, doc, err = s.paused(ctx, w, in)
		return doc, err
	}
	l, next, doc, err := s.prepareResume(ctx, sessionID, info, in)
	if err != nil || doc.Unchanged != "" {
		return doc, err
	}
	doc.Plan, err = l.Plan(ctx, next)
	return doc, startError(err)
}

// described is Temporal's description of a session; nil: Temporal does not have it.
func (s Starts) described(ctx context.Context, sessionID string) (*sessionstatus.Reader, *workflowpb.WorkflowExecutionInfo,
	error,
) {
	w, err := s.reader(sessionID)
	if err != nil {
		return nil, nil, err
	}
	if _, err := s.connected(); err != nil {
		return nil, nil, err
	}
	info, err := w.Describe(ctx)
	if errors.Is(err, sessionstatus.ErrUnknown) {
		return w, nil, nil
	}
	return w, info, s.asNotFound(ctx, sessionID, err)
}

// prepareResume prepares the next run of a session that has ended.
func (s Starts) prepareResume(ctx context.Context, sessionID string, info *workflowpb.WorkflowExecutionInfo,
	in Resume,
) (l *launch.Launcher, next launch.Session, doc Foreseen, err error) {
	doc.Session = sessionID
	if l, err = s.launcher(ctx); err != nil {
		return l, next, doc, err
	}
	if owner := sessionstatus.Memo[string](info, workflows.MemoStore); owner != "" && owner != l.Store.ID() {
		return l, next, doc, conflictf(sessionID, "%w", &OtherStoreError{sessionID, owner, l.Store.ID(), l.Store.Dir()})
	}
	found, t, faults, err := s.lastGood(ctx, sessionID, in.Team)
	doc.Faults = faults
	if err != nil {
		return l, next, doc, err
	}
	course, err := in.course(t)
	if err != nil {
		return l, next, doc, err
	}
	course.Force = in.Force
	if !in.changes() && found.Finished(t) {
		doc.Run, doc.Unchanged = found.Execution.Run, session.Completed
		return l, next, doc, nil
	}
	if next, err = found.Next(sessionID, t, course); err != nil {
		return l, next, doc, invalidf("only", "%w; select phases", err)
	}
	doc.Run = found.Execution.Run + 1
	return l, next, doc, s.edit(ctx, sessionID, t, found.Checkpoint.Tree, &next.Start.Course, in.Edits)
}

// lastGood is the data in the store of a session to resume, and the team of its next run.
func (s Starts) lastGood(ctx context.Context, sessionID string, team TeamInput) (found launch.Stored, t spec.Team,
	faults []string, err error,
) {
	st, key, err := s.InStore(ctx, sessionID)
	if err != nil {
		return found, t, nil, err
	}
	found, err = launch.LastGood(ctx, st, key)
	for _, f := range found.Faults {
		faults = append(faults, f.Error())
	}
	_, none := errors.AsType[*launch.NoCheckpointError](err)
	switch {
	case none:
		return found, t, faults, conflictf(sessionID, "session %s has %w", sessionID, err)
	case err != nil:
		return found, t, faults, err
	}
	if team != (TeamInput{}) {
		t, err = s.permittedTeam(ctx, team)
		return found, t, faults, err
	}
	if t, err = launch.TeamOf(ctx, st, found.Checkpoint); err != nil {
		err = &Error{Problem{Kind: Conflict, Field: "team", Session: sessionID}, fmt.Errorf("%w; give the team", err)}
	}
	return found, t, faults, err
}

// TeamText is the team of a session as the text of a team file, to be changed for the next run or for a fork.
func (s Starts) TeamText(ctx context.Context, sessionID string) (string, error) {
	k, err := s.keptTeam(ctx, sessionID)
	if err != nil {
		return "", err
	}
	return config.TeamText(k.team)
}
