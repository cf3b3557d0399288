package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// setConflict notes a conflict in the input of a phase, or in all work at the end. If the
// team has `help.mode: fail`, the session ends.
func (s *sessionRun) setConflict(ctx workflow.Context, p *phase, merged spec.Digest, conflicts []session.Conflict) {
	what := "the input of phase " + p.Name
	if s.phaseStatus(p.Name).Status.Done() {
		what = "the work of all phases"
	}
	f := failures.Failf(failures.ContractViolation, "%s has a merge conflict: %s", what, session.ListConflicts(conflicts))
	if s.Team.Help.Mode == spec.HelpAsk {
		p.Conflict = &mergeConflict{*f, merged, conflicts}
		return
	}
	s.failWithoutAsking(ctx, session.Request{
		Kind: session.ForHelp, Phase: p.Name, Persona: p.Integrator, Category: f.Category, Message: f.Message, Suggestion: f.Remedy(),
	})
}

// resolveConflict opens a request on a conflict. A person decides that one of the phase's personas
// merges all versions, or that the later version is kept.
func (s *sessionRun) resolveConflict(ctx workflow.Context, p *phase) error {
	c := *p.Conflict
	id := spec.AssignmentID{Phase: p.Name, Persona: p.Integrator}
	before, state := *s.Status.Assignment(id), s.phaseStatus(p.Name).Status
	a := newAssignment(s.Schedule.assignment(id), before, id, c.Merged)
	r := &request{Request: session.Request{
		Kind: session.ForHelp, Phase: id.Phase, Persona: id.Persona, Category: c.Failure.Category, Message: c.Failure.Message,
		Suggestion: "Skip keeps the later version; retry has the phase merge all versions.",
		Actions:    []session.Action{session.AnswerRetry, session.AnswerSkip, session.AnswerAbort}, Usage: before.Usage,
		SkipEffect: session.KeepsLater(c.List),
	}}
	if c.Merged == "" {
		r.Suggestion, r.Actions = "Skip keeps the later version.", []session.Action{session.AnswerSkip, session.AnswerAbort}
		r.obsolete = func() bool { return p.Conflict == nil } // some of the work is done again
	}
	answer, err := s.ask(ctx, a, s.openRequest(ctx, r))
	if s.isHandedOver(err) {
		*s.Status.Assignment(id) = before
		s.setPhase(p.Name, state)
	}
	if err != nil {
		return err
	}
	p.Conflict = nil
	*s.Status.Assignment(id) = before
	s.setPhase(p.Name, state)
	if answer == nil { // the conflict is over
		return nil
	}
	if c.Merged != "" {
		p.Input = c.Merged
	}
	if answer.Action == session.AnswerSkip {
		dropped := session.KeptLater(c.List)
		if c.Merged != "" {
			s.Schedule.assignment(id).DroppedByPerson = dropped
		} else { // the phase is done
			s.Status.Assignment(id).Dropped = slices.Concat(before.Dropped, dropped)
		}
		return nil
	}
	by := p.Integrator
	if p.Order == spec.OrderSequence { // the others build on its work
		by = p.Personas[0]
	}
	for i, persona := range p.Personas {
		state := p.Assignments[i]
		state.Note = answer.Note
		if persona == by {
			state.Given = c.List
		} else {
			state.Note = fmt.Sprintf("%s. The files have the version of the last one named; %s merges them. %s", c.Failure.Message, by, answer.Note)
		}
	}
	return nil
}
