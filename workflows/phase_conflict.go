package workflows

import (
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// setConflict notes a conflict in the input of a phase, or in all work at the end. If the
// team has `help.mode: fail`, the session ends.
func (ps *phases) setConflict(ctx workflow.Context, p *phase, merged spec.Digest, conflicts []session.Conflict) {
	what := "the input of phase " + p.Name
	if ps.publisher.phase(p.Name).Status.Done() {
		what = "the work of all phases"
	}
	f := failures.Failf(failures.ContractViolation, "%s has a merge conflict: %s", what, session.ListConflicts(conflicts))
	if ps.team.Help.Mode == spec.HelpAsk {
		p.conflict = &mergeConflict{*f, merged, conflicts}
		return
	}
	ps.requests.failAtOnce(ctx, session.Request{
		Kind: session.ForHelp, Phase: p.Name, Persona: p.Integrator, Category: f.Category, Message: f.Message, Suggestion: f.Remedy(),
	})
}

// resolveConflict opens a request on a conflict. A person decides that one of the phase's personas
// merges all versions, or that the later version is kept.
func (ps *phases) resolveConflict(ctx workflow.Context, p *pass) (bool, error) {
	c := *p.conflict
	id := spec.AssignmentID{Phase: p.Name, Persona: p.Integrator}
	before, state := *ps.status.Assignment(id), ps.publisher.phase(p.Name).Status
	a := newAssignment(ps.schedule.assignment(id), before, id, c.merged)
	r := &request{Request: session.Request{
		Kind: session.ForHelp, Phase: id.Phase, Persona: id.Persona, Category: c.failure.Category, Message: c.failure.Message,
		Suggestion: "Skip keeps the later version; retry has the phase merge all versions.",
		Actions:    []session.Action{session.AnswerRetry, session.AnswerSkip, session.AnswerAbort}, Usage: before.Usage,
		SkipEffect: session.KeepsLater(c.list),
	}}
	if c.merged == "" {
		r.Suggestion, r.Actions = "Skip keeps the later version.", []session.Action{session.AnswerSkip, session.AnswerAbort}
		r.obsolete = func() bool { return p.conflict == nil } // some of the work is done again
	}
	answer, err := ps.requests.ask(ctx, a, ps.requests.add(ctx, r))
	if errors.Is(err, errSessionEnds) && ps.ending.handsOver() {
		*ps.status.Assignment(id) = before
		ps.publisher.setPhase(p.Name, state)
	}
	if err != nil {
		return false, ignoreSessionEnd(err)
	}
	p.conflict = nil
	*ps.status.Assignment(id) = before
	ps.publisher.setPhase(p.Name, state)
	if answer == nil { // the conflict is over
		return true, nil
	}
	if c.merged != "" {
		p.phase.input = c.merged
	}
	if answer.Action == session.AnswerSkip {
		dropped := session.KeptLater(c.list)
		if c.merged != "" {
			ps.schedule.assignment(id).dropped = dropped
		} else { // the phase is done
			ps.status.Assignment(id).Dropped = slices.Concat(before.Dropped, dropped)
		}
		return true, nil
	}
	by := p.Integrator
	if p.Order == spec.OrderSequence { // the others build on its work
		by = p.Personas[0]
	}
	ps.schedule.assignment(spec.AssignmentID{Phase: p.Name, Persona: by}).given = c.list
	for _, persona := range p.Personas {
		note := answer.Note
		if persona != by {
			note = fmt.Sprintf("%s. The files have the version of the last one named; %s merges them. %s", c.failure.Message, by, answer.Note)
		}
		ps.schedule.assignment(spec.AssignmentID{Phase: p.Name, Persona: persona}).note = note
	}
	return true, nil
}
