package activities

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// loadEarlierRuns takes over the alerts of earlier runs, and the cost of assignments that are no longer in the team. It
// refuses a session that another run has already taken over.
func (r *restoration) loadEarlierRuns() error {
	e, err := r.State.Execution(r.ctx, r.key)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return r.sumDropped()
	case err != nil:
		return err
	}
	if e.Run >= r.in.Run && e.OriginalRun != r.in.OriginalRun {
		r.faults = append(r.faults, fmt.Sprintf("session %s is already in run %d; see `maestro status %[1]s`", r.key.Session, e.Run))
		return nil
	}
	r.status.Alerts = e.Alerts
	return r.sumDropped()
}

// sumDropped adds up the cost of assignments that are no longer in the team.
func (r *restoration) sumDropped() error {
	costs, err := r.State.Costs(r.ctx, r.key, "phase", "persona")
	for _, c := range costs {
		id := spec.AssignmentID{Phase: c.Phase, Persona: c.Persona}
		if r.costs[id] = c.Usage; r.status.Assignment(id) == nil {
			r.status.Dropped = r.status.Dropped.Add(c.Usage)
		}
	}
	return err
}

// findFinished collects the recorded work: the checkpoint's and, of phases that were not
// complete, that of the assignments' records.
func (r *restoration) findFinished() error {
	var err error
	if r.base, err = r.Sessions.Checkpoint(r.ctx, r.in.Base); err != nil {
		return fmt.Errorf("read checkpoint %s: %w", r.in.Base.Short(), err)
	}
	if err := r.Files.Intact(r.ctx, r.in.Workspace); err != nil {
		r.faults = append(r.faults, "the session's workspace tree is damaged: "+err.Error())
	}
	if r.base.Team.Blob != r.in.Team {
		r.before, r.unread = r.Sessions.Team(r.ctx, r.base.Team.Blob)
	}
	if len(r.given) == 0 {
		r.given = r.base.Given
	}
	if r.in.Origin == nil {
		r.in.Origin = r.base.Origin // a resumed fork stays one
		r.status.Origin = r.in.Origin
	}
	for _, a := range r.base.Partial {
		r.found[a.AssignmentID] = finished{RestoredWork{CheckpointAssignment: r.asForked(a)}, false}
	}
	for _, a := range r.base.Assignments {
		r.found[a.AssignmentID] = finished{RestoredWork{CheckpointAssignment: r.asForked(a)}, true}
	}
	if r.in.Run == 1 {
		return nil
	}
	return r.findRecorded()
}

// forks reports whether the session begins as a fork of another one.
func (r *restoration) forks() bool { return r.in.Run == 1 && r.in.Origin != nil }

// asForked returns finished work without its cost in a fork: the origin has paid for it.
func (r *restoration) asForked(a session.CheckpointAssignment) session.CheckpointAssignment {
	if r.forks() {
		a.Usage = cost.Usage{}
	}
	return a
}

func (r *restoration) findRecorded() error {
	records, err := r.State.Records(r.ctx, r.key)
	if err != nil {
		return err
	}
	for _, record := range records {
		id := record.Assignment
		if r.status.Assignment(id) == nil {
			continue
		}
		r.records[id] = record
		if work, ok := recordedWork(record); ok {
			if _, known := r.found[id]; !known {
				r.found[id] = finished{work, false}
			}
		}
	}
	return r.findSkipped()
}

// recordedWork is an assignment's own work in its record, without its fixes of
// the merged tree.
func recordedWork(record session.Record) (RestoredWork, bool) {
	for _, round := range slices.Backward(record.Rounds) {
		if round.Result == nil || round.Integrating || round.Stale() {
			continue
		}
		a, res := record.Counted(), round.Result
		a.Seconds, a.Summary, a.Files = res.EndedAt.Sub(res.StartedAt).Seconds(), res.Summary, res.Files
		a.LeftOut, a.BasedWork = res.LeftOut, res.BasedWork
		return RestoredWork{withBasisDigest(a), res.Output}, true
	}
	return RestoredWork{}, false
}

// damage describes which part of an assignment's work is missing from the store;
// empty: none.
func (r *restoration) damage(a session.CheckpointAssignment) (string, error) {
	deltas := []spec.Digest{a.Delta}
	for _, w := range a.Integrated {
		deltas = append(deltas, w.Delta)
	}
	for _, delta := range deltas {
		err := r.Files.IntactDelta(r.ctx, delta)
		if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt) {
			return "its work is damaged: " + strings.ReplaceAll(err.Error(), "\n", "; "), nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
}
