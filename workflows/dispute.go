package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/team"
)

// dispute is what side by side phases disagree on, before a phase that builds on
// them all, or at the end.
type dispute struct {
	failure team.Failure
	// merged is what the phase would start from, with the later version of
	// everything; empty: the phase is done, and no other builds on the others.
	merged team.Digest
}

// cannotJoin notes that what a phase builds on, or all work at the end, does not
// fit together. A team that does not want to be asked has its session end.
func (s *session) cannotJoin(ctx workflow.Context, phase string, merged team.Digest, conflicts []team.Conflict) {
	what := "what phase " + phase + " builds on"
	if s.phase(phase).Status.Done() {
		what = "the work of all phases"
	}
	f := team.Failf(team.ContractViolation, "%s does not fit together: %s", what, conflicts[0])
	if s.team.Help.Mode == team.HelpAsk {
		s.disputes[phase] = dispute{failure: *f, merged: merged}
		return
	}
	p, _ := s.team.Phase(phase)
	s.endAtOnce(ctx, team.HelpRequest{
		Kind: team.ForHelp, Phase: phase, Persona: p.Integrator, Category: f.Category, Message: f.Message, Suggestion: f.Remedy(),
	})
}

// arbitrate asks a person what becomes of a dispute: the phase's personas make one
// version of both, told what does not fit, or the later version stands.
func (s *session) arbitrate(ctx workflow.Context, p team.Phase, d dispute) error {
	a := s.newAssignment(team.AssignmentID{Phase: p.Name, Persona: p.Integrator}, d.merged)
	before, state := *s.status.Assignment(a.AssignmentID), s.phase(p.Name).Status
	h := team.HelpRequest{
		Kind: team.ForHelp, Phase: a.Phase, Persona: a.Persona, Category: d.failure.Category, Message: d.failure.Message,
		Suggestion: "Skip, and the later version stands; or retry, and the phase's personas make one version of both.",
		Answers:    []team.Verb{team.Retrying, team.Skipping, team.Aborting}, Usage: before.Usage,
	}
	if d.merged == "" {
		h.Suggestion, h.Answers = "Skip, and the later version stands.", []team.Verb{team.Skipping, team.Aborting}
	}
	r := s.newRequest(ctx, h)
	if d.merged == "" {
		r.wake = func() bool { // some of the work is done again
			_, disputed := s.disputes[p.Name]
			return !disputed
		}
	}
	answer, err := s.ask(ctx, a, r)
	if err != nil {
		return unlessOver(err)
	}
	delete(s.disputes, p.Name)
	*s.status.Assignment(a.AssignmentID) = before
	s.setPhase(p.Name, state)
	if d.merged == "" {
		return nil
	}
	s.inputs[p.Name] = d.merged
	if answer.Verb == team.Retrying {
		for _, persona := range p.Personas {
			id := team.AssignmentID{Phase: p.Name, Persona: persona}
			s.notes[id.String()] = fmt.Sprintf("%s. The files have the version of the one named last; make one version that serves all. %s", d.failure.Message, answer.Note)
		}
	}
	return nil
}
