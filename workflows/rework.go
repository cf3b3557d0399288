package workflows

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/team"
)

// takeReworks goes on with what was sent back in earlier incarnations.
func (s *session) takeReworks(reworks []team.Rework) {
	for _, r := range reworks {
		s.sentBack[r.From.Phase]++
		for _, phase := range r.Open {
			if s.todo[phase] {
				s.reworking[phase] = &r
			}
		}
	}
}

// maySendBack is how often a phase may still send work back.
func (s *session) maySendBack(phase string) int {
	p, _ := s.team.Phase(phase)
	if p.SendsBack == nil {
		return 0
	}
	return max(p.SendsBack.Times-s.sentBack[phase], 0)
}

// whoSendsBack is the first of a phase's personas who sends work back; nil: nobody.
func whoSendsBack(work []*assignment) *assignment {
	for _, a := range work {
		if len(a.sendsBack) > 0 {
			return a
		}
	}
	return nil
}

// sendBack has an earlier phase do its work again, for the reasons that a persona
// gives. Once that has happened as often as it may, a person decides: to send the
// work back once more, or to accept it as it is, which is when it returns true.
func (s *session) sendBack(ctx workflow.Context, p team.Phase, sender *assignment, work []*assignment) (accepted bool, err error) {
	rework := team.Rework{To: p.SendsBack.To, From: sender.AssignmentID, Pass: s.sentBack[p.Name] + 1, Of: p.SendsBack.Times}
	runs := s.in.Course.Selects(rework.To)
	for {
		rework.Reasons = reasons(sender, work)
		if runs && rework.Pass <= rework.Of {
			break
		}
		bound := fmt.Sprintf("it may no more than %d times", rework.Of)
		if !runs {
			bound = "this session is not to run"
		}
		f := team.Failf(team.Rejected, "%s", team.Shorten(fmt.Sprintf("%s sends the work of phase %s back, which %s: %s",
			sender.AssignmentID, rework.To, bound, strings.Join(rework.Reasons, "; ")), team.MaxMessage))
		s.note(ctx, sender, team.Failed)
		then, err := s.askFor(ctx, sender, *f, append(slices.Clone(sender.Failures), team.AttemptFailure{Category: f.Category, Message: f.Message}))
		if err != nil || then != itTriesAgain {
			return then == itIsSettled, err
		}
		if runs && sender.supplied == "" {
			if sender.note != "" {
				rework.Reasons = append(rework.Reasons, "A person adds: "+sender.note)
			}
			break
		}
		if ok, err := s.runRounds(ctx, sender); err != nil || !ok || len(sender.sendsBack) == 0 {
			return ok, err
		}
	}
	left := slices.DeleteFunc(slices.Clone(work), func(a *assignment) bool { return !a.Status.Done() })
	return false, unlessOver(s.rework(ctx, p, rework, left, nil))
}

// reasons are those of the persona that sends work back, and of all others of its
// phase that do.
func reasons(sender *assignment, work []*assignment) []string {
	all := slices.Clone(sender.sendsBack)
	for _, a := range work {
		if a == sender {
			continue
		}
		for _, reason := range a.sendsBack {
			all = append(all, a.Persona+" adds: "+reason)
		}
	}
	return all
}

// reject has a phase do its work again, because a person wants it so.
func (s *session) reject(ctx workflow.Context, p team.Phase, r *request) error {
	delete(s.parked, p.Name)
	s.forget(r)
	err := s.rework(ctx, p, team.Rework{To: p.Name, By: r.answer.By, Reasons: []string{r.answer.Note}}, nil, r.answer)
	if err == nil {
		r.heeded = true
		s.tell(ctx, team.WentOn, &r.HelpRequest, r.answer)
	}
	return unlessOver(err)
}

// rework undoes a phase and all that builds on it, and lets them begin again. left
// is the work of the phase by that wants it, which no checkpoint has. errNotBegun says
// that the session ends first.
func (s *session) rework(ctx workflow.Context, by team.Phase, rework team.Rework, left []*assignment, answer *team.Answer) error {
	if err := s.boundary.Lock(ctx); err != nil {
		return err
	}
	defer s.boundary.Unlock()
	if s.stopping() { // nothing new starts, and what is at work is finished
		return errNotBegun
	}
	open := s.begunFrom(rework.To)
	s.settleEnd()
	if err := s.recall(ctx, open, by.Name); err != nil {
		return err
	}
	rework.Open, rework.At = open, workflow.Now(ctx).UTC()
	for _, phase := range open {
		s.reopen(ctx, phase)
	}
	s.standing()
	var out activities.Reworked
	if err := s.atBoundary(ctx, activities.ReworkName, activities.ReworkInput{
		Boundary:    s.step(ctx),
		Incarnation: s.status.Incarnation, Head: s.head, Rework: rework, Left: entries(left), Answer: answer,
		Help: s.status.Help, Reason: s.status.Reason,
	}, &out); err != nil {
		return err
	}
	s.head, s.status.Checkpoint, s.status.Decisions = out.Head, out.Head, out.Decisions
	s.sentBack[rework.From.Phase]++
	for _, phase := range open {
		s.reworking[phase] = &rework
	}
	s.inputs[rework.To] = out.Input
	s.publish(ctx)
	s.remember(ctx)
	return nil
}

// begunFrom lists a phase and what builds on it, as far as it has begun: what has
// not has nothing to do again.
func (s *session) begunFrom(to string) []string {
	var open []string
	for _, p := range s.team.Phases {
		if p.Name != to && !slices.Contains(s.team.Ancestors(p.Name), to) || !s.in.Course.Selects(p.Name) {
			continue
		}
		delete(s.inputs, p.Name) // what it would have started from is undone
		delete(s.disputes, p.Name)
		if !s.todo[p.Name] || s.atWork[p.Name] != nil || s.begun(p) {
			open = append(open, p.Name)
		}
	}
	return open
}

// begun tells whether some of a phase's work is at hand.
func (s *session) begun(p team.Phase) bool {
	return slices.ContainsFunc(p.Personas, func(persona string) bool {
		_, ok := s.partial[team.AssignmentID{Phase: p.Name, Persona: persona}]
		return ok
	})
}

// settleEnd ends the disputes at the session's end: what did not fit together may do
// so once some of it was done again.
func (s *session) settleEnd() {
	for _, p := range s.team.Phases {
		if d, ok := s.disputes[p.Name]; ok && d.merged == "" {
			delete(s.disputes, p.Name)
		}
	}
}

// recall ends the work of phases that are to be done again, and waits until their
// agents are gone.
func (s *session) recall(ctx workflow.Context, phases []string, but string) error {
	for _, phase := range phases {
		if end := s.atWork[phase]; end != nil && phase != but {
			s.recalled[phase] = true
			end()
		}
	}
	err := workflow.Await(ctx, func() bool {
		return !slices.ContainsFunc(phases, func(phase string) bool { return phase != but && s.atWork[phase] != nil })
	})
	for _, phase := range phases {
		delete(s.recalled, phase)
	}
	return err
}

// reopen makes a phase yet to be done. What it has cost stays.
func (s *session) reopen(ctx workflow.Context, phase string) {
	p, _ := s.team.Phase(phase)
	s.todo[phase] = true
	delete(s.unapproved, phase)
	if r := s.parked[phase]; r != nil {
		delete(s.parked, phase)
		s.withdraw(ctx, r)
	}
	s.setPhase(phase, team.Pending)
	for _, persona := range p.Personas {
		id := team.AssignmentID{Phase: phase, Persona: persona}
		delete(s.partial, id)
		s.countsOf(id).afresh++
		a := s.status.Assignment(id)
		a.Status, a.Summary, a.Awaits = team.Pending, "", nil
	}
	s.endWritten = false
}
