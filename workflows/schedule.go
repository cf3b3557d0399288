package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// schedule decides which phases may start, and which are repeated when work is sent back.
// It is pure state: it neither waits nor executes anything.
type schedule struct {
	team   *spec.Team
	course session.Course
	// phases are in the team's order.
	phases []*phase
	byName map[string]*phase
	// above caches the phases that each phase depends on.
	above       map[string][]string
	assignments map[spec.AssignmentID]*assignmentState
}

// phase is the state of a phase of the team.
type phase struct {
	spec.Phase
	// todo: it has yet to be recorded.
	todo bool
	// input is its input manifest; empty: it may not start yet.
	input spec.Digest
	// cancel cancels its running work; nil: none runs.
	cancel workflow.CancelFunc
	// approval is the open request for its approval; nil: none. unapproved: a new one
	// has to be opened, because an earlier run left the phase without an answer.
	approval   *request
	unapproved bool
	// approvals are the approvals of its work from before the request was opened.
	approvals []session.Approval
	// conflict has the conflicts of its input or, at the end, of the work of all phases.
	conflict *mergeConflict
	// rework is why it repeats its work; recalled: its running work is being cancelled for that.
	rework   *session.Rework
	recalled bool
	// work is the work of the running pass; nil: none has begun.
	work []*assignment
	// sentBack counts how often it has sent work back; merges its merge activities.
	sentBack, merges int
}

// mergeConflict has the conflicts of concurrent phases, in the input of a phase that
// depends on them, or at the end.
type mergeConflict struct {
	failure failures.Failure
	// merged is the input of the phase with the later version of each conflict; empty:
	// the phase is done, and the conflict is in the work of all phases.
	merged spec.Digest
	list   []session.Conflict
}

// pass is one execution of a phase, with the work of its personas.
type pass struct {
	*phase
	input spec.Digest
}

// load takes over the state of the phases at admission, without their inputs.
func (s *schedule) load(a activities.Admission) {
	s.byName = map[string]*phase{}
	for _, p := range s.team.Phases {
		s.byName[p.Name] = &phase{
			Phase: p, todo: slices.Contains(a.Todo, p.Name), unapproved: slices.Contains(a.Unapproved, p.Name), approvals: a.Approvals[p.Name],
		}
		s.phases = append(s.phases, s.byName[p.Name])
		for _, persona := range p.Personas {
			id := spec.AssignmentID{Phase: p.Name, Persona: persona}
			s.assignment(id).note = a.Notes[id.String()]
		}
	}
	for _, w := range a.Partial {
		s.assignment(w.AssignmentID).restored = &w
	}
	for _, r := range a.Reworks {
		if from := s.byName[r.From.Phase]; from != nil {
			from.sentBack++
		}
		for _, name := range r.Open {
			if p := s.byName[name]; p != nil && p.todo {
				p.rework = &r
			}
		}
	}
}

// assignment returns the state of an assignment over all passes of its phase.
func (s *schedule) assignment(id spec.AssignmentID) *assignmentState {
	if s.assignments[id] == nil {
		s.assignments[id] = &assignmentState{}
	}
	return s.assignments[id]
}

// approval returns the request for the approval of a phase; nil: none is open.
func (s *schedule) approval(name string) *request {
	if p := s.byName[name]; p != nil {
		return p.approval
	}
	return nil
}

// recalled reports whether the work of a phase is being cancelled, to be repeated.
func (s *schedule) recalled(name string) bool {
	p := s.byName[name]
	return p != nil && p.recalled
}

// ready reports whether there is something to do for a phase now.
func (s *schedule) ready(p *phase) bool {
	return p.conflict != nil || p.unapproved || p.todo && p.input != "" && !s.heldBack(p)
}

// waiting lists the phases of the session's course for which there is something to do, and
// that are not at work.
func (s *schedule) waiting() (out []*phase) {
	for _, p := range s.phases {
		if p.cancel == nil && s.course.Selects(p.Name) && s.ready(p) {
			out = append(out, p)
		}
	}
	return out
}

// open reports whether a phase is at work, may start, or waits for a person.
func (s *schedule) open(p *phase) bool { return p.approval != nil || s.ready(p) }

// heldBack reports whether a phase depends on one that has yet to be approved.
func (s *schedule) heldBack(p *phase) bool {
	return slices.ContainsFunc(s.ancestors(p.Name), func(name string) bool {
		above := s.byName[name]
		return above.approval != nil || above.unapproved
	})
}

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
	return !slices.ContainsFunc(s.phases, func(p *phase) bool {
		return p.todo || p.cancel != nil || p.conflict != nil || p.unapproved
	})
}

// done reports whether every phase that was to run is recorded and approved, and their
// work fits together.
func (s *schedule) done() bool {
	return !slices.ContainsFunc(s.phases, func(p *phase) bool { return p.todo || p.undecided() })
}

// undecided reports whether a person has something to decide about the phase.
func (p *phase) undecided() bool { return p.approval != nil || p.unapproved || p.conflict != nil }

// isOnlyRunning reports whether no other phase is running, and no phase waits for a
// person's decision.
func (s *schedule) isOnlyRunning(p *phase) bool {
	return !slices.ContainsFunc(s.phases, func(other *phase) bool {
		return other.undecided() || other != p && other.cancel != nil
	})
}

// unlockedBy lists the phases that may start once p is recorded, and reports
// whether p is the last. Phases outside the session's course block nothing.
func (s *schedule) unlockedBy(p *phase) (ready []string, last bool) {
	last = true
	for _, next := range s.phases {
		if !next.todo || next == p {
			continue
		}
		last = false
		above := s.ancestors(next.Name)
		if slices.Contains(above, p.Name) && !slices.ContainsFunc(above, func(n string) bool { return n != p.Name && s.byName[n].todo }) {
			ready = append(ready, next.Name)
		}
	}
	return ready, last
}

// maySendBack returns how often a phase may still send work back.
func (s *schedule) maySendBack(p *phase) int {
	if p.SendsBack == nil {
		return 0
	}
	return max(p.SendsBack.Times-p.sentBack, 0)
}

// undo clears the inputs of a phase and of all phases that depend on it, and lists those that
// have begun: only these repeat work. It also clears a conflict at the end, which may not
// occur again.
func (s *schedule) undo(to string) []*phase {
	var begun []*phase
	for _, p := range s.phases {
		if p.conflict != nil && p.conflict.merged == "" {
			p.conflict = nil
		}
		if p.Name != to && !slices.Contains(s.ancestors(p.Name), to) || !s.course.Selects(p.Name) {
			continue
		}
		p.input, p.conflict = "", nil
		if !p.todo || p.cancel != nil || p.work != nil || s.hasWork(p) {
			begun = append(begun, p)
		}
	}
	return begun
}

// hasWork reports whether some of a phase's work is at hand.
func (s *schedule) hasWork(p *phase) bool {
	return slices.ContainsFunc(p.Personas, func(persona string) bool {
		return s.assignment(spec.AssignmentID{Phase: p.Name, Persona: persona}).restored != nil
	})
}

// reopen makes a phase repeat its work. It returns the request for its approval, which needs
// no answer any more; nil: there is none.
func (s *schedule) reopen(p *phase) *request {
	approval := p.approval
	p.todo, p.unapproved, p.approval, p.approvals, p.work = true, false, nil, nil, nil
	for _, persona := range p.Personas {
		a := s.assignment(spec.AssignmentID{Phase: p.Name, Persona: persona})
		a.restored = nil
		a.order(session.BecauseSentBack)
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
