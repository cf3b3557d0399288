package activities

import (
	"slices"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// approvals finds the finished phases that wait for approval: too few persons have approved
// their current work, and no finished work depends on it.
func (r *restoration) approvals() {
	for i, p := range r.team.Phases {
		if !p.Approve.Wanted() || !r.in.Course.Selects(p.Name) || !r.status.Phases[i].Status.Done() || r.builtOn(p.Name) {
			continue
		}
		var work []session.CheckpointAssignment
		for _, persona := range p.Personas {
			work = append(work, r.done[spec.AssignmentID{Phase: p.Name, Persona: persona}])
		}
		found := r.approvalsOf(p.Name, session.WorkOf(p.Name, work))
		q := session.NewQuorum(p.Approve, r.in.StartedBy, r.in.StartedByID, found)
		if q == nil && len(found) > 0 || q != nil && q.Left() == 0 {
			continue
		}
		r.unapproved = append(r.unapproved, p.Name)
		r.status.Phases[i].Status = session.AwaitingApproval
		if q != nil && len(q.Approvals) > 0 {
			r.approved[p.Name] = q.Approvals
		}
	}
}

// approvalsOf returns the approvals of a phase's work since it was last rejected.
func (r *restoration) approvalsOf(phase string, work spec.Digest) (found []session.Approval) {
	for _, a := range r.base.Answers {
		switch {
		case a.Phase != phase:
		case a.Action == session.AnswerReject:
			found = nil
		case a.Action == session.AnswerApprove && a.Work == work:
			found = append(found, session.Approval{
				Person: a.Person, PersonID: a.PersonID, Group: a.Group,
				Note: textfmt.Shorten(a.Note, session.MaxMessage), At: a.At,
			})
		}
	}
	return found
}

// builtOn reports whether finished work depends on a phase.
func (r *restoration) builtOn(phase string) bool {
	for id := range r.done {
		if slices.Contains(r.team.Ancestors(id.Phase), phase) {
			return true
		}
	}
	return false
}

// notes returns the last note of a person to each assignment that has not finished its own
// work, or its fix of the phase's merged work.
func (r *restoration) notes() map[string]string {
	notes := map[string]string{}
	for _, a := range r.base.Answers {
		id := spec.AssignmentID{Phase: a.Phase, Persona: a.Persona}
		record := r.records[id]
		_, finished := recordedWork(record)
		mends := slices.ContainsFunc(r.partial, func(w RestoredWork) bool { return w.AssignmentID == id })
		if a.Action == session.AnswerRetry && a.Note != "" && len(record.Rounds) > 0 && (mends || !finished) {
			notes[id.String()] = a.Note
		}
	}
	return notes
}

// findSkipped adds the assignments that a person has skipped to the found work, if their
// phases were not recorded since. An answer does not count any more if the assignment
// worked again, or its phase was sent back, after it.
func (r *restoration) findSkipped() error {
	if !slices.ContainsFunc(r.base.Answers, func(a session.Answer) bool { return a.CountsAsDone }) {
		return nil
	}
	nothing, err := r.Files.Overlay(r.ctx, r.in.Workspace, r.in.Workspace)
	if err != nil {
		return err
	}
	for _, id := range r.team.Assignments() {
		if _, known := r.found[id]; !known && r.skipped(id) {
			a := r.records[id].Counted()
			a.AssignmentID, a.Status, a.Summary = id, session.Skipped, "skipped by a person"
			a.Input, a.Work = r.in.Workspace, session.Work{Delta: nothing.Delta}
			r.found[id] = finished{RestoredWork{CheckpointAssignment: a}, false}
		}
	}
	return nil
}

// skipped reports whether the last answer of a person on an assignment is to skip it.
func (r *restoration) skipped(id spec.AssignmentID) bool {
	for _, a := range slices.Backward(r.base.Answers) {
		if a.Phase != id.Phase || a.Persona != id.Persona {
			continue
		}
		undone := slices.ContainsFunc(r.base.Reworks, func(w session.Rework) bool {
			return w.At.After(a.At) &&
				slices.Contains(w.Open, id.Phase)
		})
		return a.CountsAsDone && !undone
	}
	return false
}

// disagreement finds the conflicts of all work if no phase is left to run. If a person has decided in an earlier
// run to keep the later versions, it notes what that has dropped.
func (r *restoration) disagreement() error {
	if r.in.Base == "" || len(r.todo) > 0 {
		return nil
	}
	folded, err := r.fold(r.team.PhaseNames())
	if err != nil || len(folded.Conflicts) == 0 {
		return err
	}
	var done []session.CheckpointAssignment
	for _, id := range r.team.Assignments() {
		if a, ok := r.done[id]; ok {
			done = append(done, a)
		}
	}
	all := session.WorkOf("", done)
	kept := slices.ContainsFunc(r.base.Answers, func(a session.Answer) bool {
		return a.Action == session.AnswerSkip &&
			a.Work == all
	})
	for _, name := range slices.Backward(r.team.Topological()) {
		if !r.in.Course.Selects(name) {
			continue
		}
		found := session.FewConflicts(folded.Conflicts)
		if !kept {
			r.conflicts[name] = found
			return nil
		}
		p, _ := r.team.Phase(name)
		id := spec.AssignmentID{Phase: name, Persona: p.Integrator}
		last := r.done[id]
		for _, text := range session.KeptLater(found) {
			if !slices.Contains(last.Dropped, text) {
				last.Dropped = append(slices.Clip(last.Dropped), text)
			}
		}
		r.done[id] = last
		return nil
	}
	return nil
}
