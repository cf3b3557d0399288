package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// merge merges and verifies the work of a phase's personas. While the merged tree has a failure, the
// integrator gets a further round on it, with the failure as feedback.
func (s *sessionRun) merge(ctx workflow.Context, p *phase) error {
	integrator := p.Work[len(p.Work)-1]
	for _, a := range p.Work {
		if a.Persona == p.Integrator {
			integrator = a
		}
	}
	for {
		if !integrator.pending() { // otherwise an earlier run has merged, and the integrator has a round to do
			if again, err := s.mergeOnce(ctx, p, integrator); err != nil || !again {
				return err
			}
		}
		integrator.unrecorded = entries(p.Work)
		if err := s.runAssignment(ctx, integrator); err != nil || integrator.accepted {
			return err
		}
	}
}

// mergeOnce executes one merge. again: the tree needs another round of the integrator first.
func (s *sessionRun) mergeOnce(ctx workflow.Context, p *phase, integrator *assignment) (again bool, err error) {
	if s.ending.continuesAsNew() {
		return false, errStopped
	}
	work, err := phaseWork(ctx, entries(p.Work))
	if err != nil {
		return false, err
	}
	result, err := s.executeMerge(ctx, p, integrator, activities.MergeInput{
		Phase: p.Name, Integrator: p.Integrator, Head: s.Status.Checkpoint,
		Input: p.Input, Assignments: work,
	})
	if err != nil {
		return false, err
	}
	before := integrator.Dropped
	integrator.drops(result.Dropped)
	if result.Failure == nil {
		if !slices.Equal(before, integrator.Dropped) {
			s.setAssignment(ctx, integrator, integrator.Status)
		}
		if result.Kept != "" {
			integrator.Integrated = append(integrator.Integrated, session.Work{Delta: result.Kept})
		}
		return false, nil
	}
	integrator.Integrating, integrator.From, integrator.Feedback = true, result.Tree, result.Feedback
	err = s.waitForIntegration(ctx, integrator, *result.Failure)
	return !integrator.accepted, err
}

// waitForIntegration waits until the integrator may begin its next round: for the retry wait, or for
// a person if its rounds are used up.
func (s *sessionRun) waitForIntegration(ctx workflow.Context, integrator *assignment, f failures.Failure) error {
	wait, again := afterRound(f, integrator.Round, s.Team.Retry)
	if !again {
		s.setAssignment(ctx, integrator, session.Failed)
		integrator.nextStep = askPerson(f)
		report := slices.Concat(integrator.Failures, []session.AttemptFailure{{Category: f.Category, Message: f.Message}})
		_, err := s.requestHelp(ctx, integrator, f, report)
		s.showPage(ctx)
		return err
	}
	s.setAssignment(ctx, integrator, session.Waiting)
	return s.pauseBeforeRound(ctx, integrator, wait, fmt.Sprintf("%s: the merged tree has a conflict or fails a check (%s)",
		integrator.Phase, f.Category))
}

// executeMerge executes a merge. A failure of the host is waited out, with a further activity after
// each wait, and people are notified after the team's patience.
func (s *sessionRun) executeMerge(ctx workflow.Context, p *phase, integrator *assignment,
	in activities.MergeInput,
) (activities.MergeResult, error) {
	if integrator.notice != nil { // an earlier run's
		in.Outage = activities.OutageNoticed
	}
	for {
		result, err := s.executeMergeOnce(ctx, p, integrator, in)
		switch end := s.endOf(err); end.kind {
		case stepInOutage:
			in.Outage = activities.OutageNoticed
			if err := s.afterOutage(ctx, integrator, end.outage, session.AnswerRetry, session.AnswerAbort); err != nil {
				return result, err
			}
		case stepTryNow:
			in.Outage = ""
		case stepHandedOver:
			return result, err
		default:
			s.withdrawNotice(ctx, integrator.AssignmentID)
			s.setAssignment(ctx, integrator, integrator.Status)
			return result, err
		}
	}
}

// executeMergeOnce executes one activity of a merge.
func (s *sessionRun) executeMergeOnce(ctx workflow.Context, p *phase, integrator *assignment,
	in activities.MergeInput,
) (result activities.MergeResult, err error) {
	p.Merges++
	queue := spec.AgentQueue(s.in.Store, s.Team.Personas[in.Integrator].Agent)
	working, cancel := workflow.WithCancel(agentContext(ctx, queue, s.Team.Retry,
		fmt.Sprintf("%s.%s.%d", in.Phase, spec.ReservedPersona, p.Merges), "merge and check phase "+in.Phase))
	defer cancel()
	started := mergePhase.start(working, in)
	if err := s.awaitResultOrAnswer(ctx, integrator, started, cancel); err != nil {
		return result, err
	}
	return mergePhase.get(ctx, started)
}

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
			state.Note = fmt.Sprintf("%s. The files have the version of the last one named; %s merges them. %s", c.Failure.Message, by,
				answer.Note)
		}
	}
	return nil
}
