package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// Stored is the data in the store of a session to resume.
type Stored struct {
	// Checkpoint is the newest readable one.
	Checkpoint store.StoredCheckpoint
	// Execution is the status document; its run is the newest known one.
	Execution session.Execution
	// Faults list what was damaged or missing, and what was repaired.
	Faults []cas.Fault
}

// Damaged reports whether any data of the session was lost.
func (s Stored) Damaged() bool {
	return slices.ContainsFunc(s.Faults, func(f cas.Fault) bool { return f.Repaired == "" })
}

// LastGood verifies a session in the store and finds the newest readable checkpoint. Without one it
// returns what was damaged, and a [*NoCheckpointError].
func LastGood(ctx context.Context, s *store.Store, key session.Key) (found Stored, err error) {
	report, err := s.VerifySession(ctx, key)
	if err != nil {
		return found, err
	}
	found.Faults = report.Faults
	if found.Checkpoint, err = s.Newest(ctx, key); found.Checkpoint.Name == "" {
		return found, &NoCheckpointError{err}
	}
	found.Execution, err = s.State.Execution(ctx, key)
	if err != nil && !errors.Is(err, session.ErrNotFound) && !errors.Is(err, session.ErrCorrupt) {
		return found, err
	}
	rows, err := s.State.Checkpoints(ctx, key)
	if err != nil || len(rows) == 0 {
		return found, err
	}
	found.Execution.Run = max(found.Execution.Run, int(rows[0].Run)) // the newest may be damaged
	return found, nil
}

// TeamOf reads the team that a checkpoint was made with.
func TeamOf(ctx context.Context, s *store.Store, c store.StoredCheckpoint) (spec.Team, error) {
	t, err := s.Team(ctx, c.Team.Blob)
	if err != nil {
		return t, fmt.Errorf("the session's team cannot be read: %w", err)
	}
	return t, nil
}

// Restart ends the run of a session that Temporal may have, and starts the next one from the store: Temporal may be ahead of a
// backup that was restored. It does not wait for the admission. The error is a [*NoCheckpointError] if there is nothing to
// start from, and a [*RefusedError] if no worker can serve the session's team yet; Temporal has no run of it then, either.
func (l *Launcher) Restart(ctx context.Context, id string) error {
	err := l.Conn.TerminateWorkflow(ctx, id, "", "a backup of the store was restored, and the session is restarted from it")
	if err != nil && !temporalutil.NotFound(err) { // it may have ended
		return err
	}
	found, err := LastGood(ctx, l.Store, session.Key{Namespace: l.Conn.Namespace, Session: id})
	if err != nil {
		return err
	}
	t, err := TeamOf(ctx, l.Store, found.Checkpoint)
	if err != nil {
		return err
	}
	next, err := found.Next(id, t, session.Course{})
	if err != nil {
		return err
	}
	if err := l.Check(ctx, next); err != nil {
		return err
	}
	_, err = l.Start(ctx, next)
	return err
}

// Next is the next run of a session that has ended, with a team, which may be another one.
// An unfinished session keeps the phases that it was limited to unless the course selects others;
// it is an error if the team has none of them.
func (s Stored) Next(id string, t spec.Team, course session.Course) (Session, error) {
	c, before := s.Checkpoint, s.Execution.Course
	course.Given, course.Source = c.Given, before.Source
	if s.Execution.Status.Status != session.Completed {
		if len(course.Only) == 0 {
			course.Only = phasesOf(t, before.Only)
		}
		if len(course.Only) == 0 && len(before.Only) > 0 {
			return Session{}, fmt.Errorf("the session was limited to %s, which the team no longer has", strings.Join(before.Only, ", "))
		}
		if len(course.PauseAfter) == 0 {
			course.PauseAfter = phasesOf(t, before.PauseAfter)
		}
	}
	return Session{ID: id, Team: t, Requirement: c.Requirement, Start: session.Start{
		Workspace: c.Workspace, Run: max(s.Execution.Run, c.Run) + 1, Course: course, Base: c.Name,
		ReportTo: c.ReportTo, Labels: c.Labels, Starter: s.Execution.Starter,
	}}, nil
}

// phasesOf returns those of the phases that a team has.
func phasesOf(t spec.Team, phases []string) []string {
	return slices.DeleteFunc(slices.Clone(phases), func(phase string) bool { _, ok := t.Phase(phase); return !ok })
}

// Fork is a new session that starts with the finished work of another and runs a phase again, with
// all its dependent phases.
func (s Stored) Fork(from string, t spec.Team, phase string) Session {
	c := s.Checkpoint
	return Session{Team: t, Requirement: c.Requirement, Start: session.Start{
		Workspace: c.Workspace, Run: 1, Base: c.Name, Origin: &session.Origin{Session: from, Checkpoint: c.Name}, Labels: c.Labels,
		Course: session.Course{Force: []string{phase}, Given: c.Given, Source: s.Execution.Course.Source},
	}}
}

// Finished reports whether a session is completed and has the work of every assignment of a team.
func (s Stored) Finished(t spec.Team) bool {
	return s.Execution.Status.Status == session.Completed && !s.Damaged() &&
		!slices.ContainsFunc(t.Assignments(), func(id spec.AssignmentID) bool {
			return !slices.ContainsFunc(s.Checkpoint.Assignments,
				func(a session.CheckpointAssignment) bool { return a.AssignmentID == id })
		})
}
