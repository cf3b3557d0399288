package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// schedule decides which phases may start, and which are repeated when work is sent back.
// It is pure state: it neither waits nor executes anything.
type schedule struct {
	// Phases are in the team's order.
	Phases []*phase `json:"phases"`

	byName map[string]*phase
	team   *spec.Team
	course session.Course
	// above caches the phases that each phase depends on.
	above map[string][]string
}

// phase is the state of a phase of the team.
type phase struct {
	spec.Phase `json:"-"`
	// Todo: it has yet to be recorded.
	Todo bool `json:"todo,omitempty"`
	// Input is the manifest that it starts from; empty if it may not start yet.
	Input spec.Digest `json:"input,omitempty"`
	// Unapproved: a request for its approval has yet to be opened, because an earlier run left the
	// phase without an answer. Approvals are those that its work has from before the request was opened.
	Unapproved bool               `json:"unapproved,omitempty"`
	Approvals  []session.Approval `json:"approvals,omitempty"`
	// Conflict has the conflicts of its input or, at the end, of the work of all phases.
	Conflict *mergeConflict `json:"conflict,omitempty"`
	// Rework is why it repeats its work.
	Rework *session.Rework `json:"rework,omitempty"`
	// TimesSentBack counts how often it has sent work back, Merges its merge activities.
	TimesSentBack int `json:"times_sent_back,omitempty"`
	Merges        int `json:"merges,omitempty"`
	// Assignments are in the order of its personas. Work has those at work or done since the phase was started; nil if none has
	// begun.
	Assignments []*assignmentState `json:"assignments"`
	Work        []*assignment      `json:"work,omitempty"`

	// cancel cancels its running work; nil if none runs. recalled: its work is being cancelled, to be repeated.
	cancel   workflow.CancelFunc
	recalled bool
	// approval is the open request for its approval; nil if there is none. savingDecision: a person has answered it, and the answer
	// is in no checkpoint yet.
	approval       *request
	savingDecision bool
}

// mergeConflict has the conflicts of concurrent phases, in the input of a phase that
// depends on them, or at the end.
type mergeConflict struct {
	Failure failures.Failure `json:"failure"`
	// Merged is the input of the phase with the later version of each conflict; empty if
	// the phase is done, and the conflict is in the work of all phases.
	Merged spec.Digest `json:"merged,omitempty"`
	// List names the conflicts.
	List []session.Conflict `json:"list,omitempty"`
}

// restore takes over the state of the previous run.
func (s *schedule) restore(t *spec.Team, course session.Course) {
	s.team, s.course, s.byName = t, course, map[string]*phase{}
	for i, p := range s.Phases {
		p.Phase = t.Phases[i]
		for j, a := range p.Work {
			a.assignmentState = p.Assignments[j]
		}
		s.byName[p.Name] = p
	}
}

// load takes over the state of the phases at admission, without their inputs.
func (s *schedule) load(t *spec.Team, course session.Course, a activities.Admission) {
	for _, phaseSpec := range t.Phases {
		name := phaseSpec.Name
		p := &phase{Todo: slices.Contains(a.Todo, name), Unapproved: slices.Contains(a.Unapproved, name), Approvals: a.Approvals[name]}
		for _, persona := range phaseSpec.Personas {
			id := spec.AssignmentID{Phase: name, Persona: persona}
			p.Assignments = append(p.Assignments, &assignmentState{Note: a.Notes[id.String()]})
		}
		s.Phases = append(s.Phases, p)
	}
	s.restore(t, course)
	for _, w := range a.Partial {
		s.assignment(w.AssignmentID).Restored = &w
	}
	for _, r := range a.Reworks {
		if from := s.byName[r.From.Phase]; from != nil {
			from.TimesSentBack++
		}
		for _, name := range r.Open {
			if p := s.byName[name]; p != nil && p.Todo {
				p.Rework = &r
			}
		}
	}
}

// assignment returns the state of an assignment over all passes of its phase; nil if the team has no such assignment.
func (s *schedule) assignment(id spec.AssignmentID) *assignmentState {
	if p := s.byName[id.Phase]; p != nil {
		if i := slices.Index(p.Personas, id.Persona); i >= 0 {
			return p.Assignments[i]
		}
	}
	return nil
}

// recalled reports whether the work of a phase is being cancelled, to be repeated.
func (s *schedule) recalled(name string) bool {
	p := s.byName[name]
	return p != nil && p.recalled
}

// open reports whether a phase is at work, may start, or waits for a person.
func (s *schedule) open(p *phase) bool { return p.approval != nil || s.ready(p) }

// ancestors returns the team's ancestors of a phase, with a cache: finding them reads all phases.
func (s *schedule) ancestors(name string) []string {
	above, known := s.above[name]
	if !known {
		if s.above == nil {
			s.above = map[string][]string{}
		}
		above = s.team.Ancestors(name)
		s.above[name] = above
	}
	return above
}

// idle reports whether no phase is left to run or to be decided on.
func (s *schedule) idle() bool {
	return !slices.ContainsFunc(s.Phases, func(p *phase) bool {
		return p.Todo || p.cancel != nil || p.Conflict != nil || p.Unapproved
	})
}

// done reports whether every phase that was to run is recorded and approved, and their
// work fits together.
func (s *schedule) done() bool {
	return !slices.ContainsFunc(s.Phases, func(p *phase) bool { return p.Todo || p.undecided() })
}

// undecided reports whether a person has something to decide about the phase.
func (p *phase) undecided() bool { return p.approval != nil || p.Unapproved || p.Conflict != nil }

// isOnlyRunning reports whether no other phase is running, and no phase waits for a
// person's decision.
func (s *schedule) isOnlyRunning(p *phase) bool {
	return !slices.ContainsFunc(s.Phases, func(other *phase) bool {
		return other.undecided() || other != p && other.cancel != nil
	})
}

// unlockedBy lists the phases that may start once p is recorded, and reports
// whether p is the last. Phases outside the session's course block nothing.
func (s *schedule) unlockedBy(p *phase) (ready []string, last bool) {
	last = true
	for _, next := range s.Phases {
		if !next.Todo || next == p {
			continue
		}
		last = false
		above := s.ancestors(next.Name)
		if slices.Contains(above, p.Name) &&
			!slices.ContainsFunc(above, func(n string) bool { return n != p.Name && s.byName[n].Todo }) {
			ready = append(ready, next.Name)
		}
	}
	return ready, last
}

// sendBacksLeft returns how often a phase may still send work back.
func (s *schedule) sendBacksLeft(p *phase) int {
	if p.SendsBack == nil {
		return 0
	}
	return max(p.SendsBack.Times-p.TimesSentBack, 0)
}

// undo clears the inputs of a phase and of all phases that depend on it, and lists those that
// have begun: only these repeat work. It also clears a conflict at the end, which may not
// occur again.
func (s *schedule) undo(to string) []*phase {
	var begun []*phase
	for _, p := range s.Phases {
		if p.Conflict != nil && p.Conflict.Merged == "" {
			p.Conflict = nil
		}
		if p.Name != to && !slices.Contains(s.ancestors(p.Name), to) || !s.course.Selects(p.Name) {
			continue
		}
		p.Input, p.Conflict = "", nil
		if !p.Todo || p.cancel != nil || p.Work != nil || s.hasWork(p) {
			begun = append(begun, p)
		}
	}
	return begun
}

// hasWork reports whether some of a phase's work is at hand.
func (s *schedule) hasWork(p *phase) bool {
	return slices.ContainsFunc(p.Assignments, func(a *assignmentState) bool { return a.Restored != nil })
}

// reopen makes a phase repeat its work. It returns the request for its approval, which needs
// no answer any more; nil if there is none.
func (s *schedule) reopen(p *phase) *request {
	approval := p.approval
	p.Todo, p.Unapproved, p.approval, p.Approvals, p.Work = true, false, nil, nil, nil
	for _, a := range p.Assignments {
		a.Restored = nil
		a.orderAgain(session.BecauseSentBack)
	}
	return approval
}

// names returns the names of phases.
func names(phases []*phase) []string {
	var out []string
	for _, p := range phases {
		out = append(out, p.Name)
	}
	return out
}

// waiting lists the phases of the session's course for which there is something to do, and
// that are not at work.
func (s *schedule) waiting() (out []*phase) {
	for _, p := range s.Phases {
		if p.cancel == nil && s.course.Selects(p.Name) && s.ready(p) {
			out = append(out, p)
		}
	}
	return out
}

// ready reports whether there is something to do for a phase now.
func (s *schedule) ready(p *phase) bool {
	return p.Conflict != nil || p.Unapproved || p.Todo && p.Input != "" && !s.awaitsApprovalAbove(p)
}

// awaitsApprovalAbove reports whether a phase depends on one that has yet to be approved. After the answer it starts when the
// answer is in a checkpoint.
func (s *schedule) awaitsApprovalAbove(p *phase) bool {
	return slices.ContainsFunc(s.ancestors(p.Name), func(name string) bool {
		above := s.byName[name]
		return above.approval != nil || above.Unapproved || above.savingDecision
	})
}
