package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/team"
)

// setConflict notes that what a phase builds on, or all work at the end, does not
// fit together. A team that does not want to be asked has its session end.
func (ps *phases) setConflict(ctx workflow.Context, p *phase, merged team.Digest, conflicts []team.Conflict) {
	what := "what phase " + p.Name + " builds on"
	if ps.publisher.phase(p.Name).Status.Done() {
		what = "the work of all phases"
	}
	f := team.Failf(team.ContractViolation, "%s does not fit together: %s", what, conflicts[0])
	if ps.team.Help.Mode == team.HelpAsk {
		p.conflict = &mergeConflict{failure: *f, merged: merged}
		return
	}
	ps.requests.failAtOnce(ctx, team.HelpRequest{
		Kind: team.ForHelp, Phase: p.Name, Persona: p.Integrator, Category: f.Category, Message: f.Message, Suggestion: f.Remedy(),
	})
}

// resolveConflict asks a person what becomes of a conflict: the phase's personas make one
// version of both, told what does not fit, or the later version stands.
func (ps *phases) resolveConflict(ctx workflow.Context, p *pass) (bool, error) {
	c := *p.conflict
	id := team.AssignmentID{Phase: p.Name, Persona: p.Integrator}
	before, state := *ps.status.Assignment(id), ps.publisher.phase(p.Name).Status
	a := newAssignment(ps.schedule.assignment(id), before, id, c.merged)
	r := &request{HelpRequest: team.HelpRequest{
		Kind: team.ForHelp, Phase: id.Phase, Persona: id.Persona, Category: c.failure.Category, Message: c.failure.Message,
		Suggestion: "Skip, and the later version stands; or retry, and the phase's personas make one version of both.",
		Answers:    []team.Verb{team.Retrying, team.Skipping, team.Aborting}, Usage: before.Usage,
	}}
	if c.merged == "" {
		r.Suggestion, r.Answers = "Skip, and the later version stands.", []team.Verb{team.Skipping, team.Aborting}
		r.obsolete = func() bool { return p.conflict == nil } // some of the work is done again
	}
	answer, err := ps.requests.ask(ctx, a, ps.requests.add(ctx, r))
	if err != nil {
		return false, ignoreSessionEnd(err)
	}
	p.conflict = nil
	*ps.status.Assignment(id) = before
	ps.publisher.setPhase(p.Name, state)
	if c.merged == "" {
		return true, nil
	}
	p.phase.input = c.merged
	if answer.Verb == team.Retrying {
		for _, persona := range p.Personas {
			ps.schedule.assignment(team.AssignmentID{Phase: p.Name, Persona: persona}).note = fmt.Sprintf(
				"%s. The files have the version of the one named last; make one version that serves all. %s", c.failure.Message, answer.Note)
		}
	}
	return true, nil
}
