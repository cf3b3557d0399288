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
	if p.Solo() {
		return nil
	}
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
	if s.ending.handsOver() {
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
	return s.pauseBeforeRound(ctx, integrator, wait, fmt.Sprintf("%s: the merged tree has a conflict or fails a check (%s)", integrator.Phase, f.Category))
}

// executeMerge executes a merge. A failure of the host is waited out, with a further activity after
// each wait, and people are notified after the team's patience.
func (s *sessionRun) executeMerge(ctx workflow.Context, p *phase, integrator *assignment, in activities.MergeInput) (activities.MergeResult, error) {
	if integrator.notice != nil { // an earlier run's
		in.Outage = activities.OutageNoticed
	}
	for {
		result, err := s.executeMergeOnce(ctx, p, integrator, in)
		switch end := s.endOf(err); end.kind {
		case roundInOutage:
			in.Outage = activities.OutageNoticed
			if err := s.afterOutage(ctx, integrator, end.outage, session.AnswerRetry, session.AnswerAbort); err != nil {
				return result, err
			}
		case roundTryNow:
			in.Outage = ""
		case roundHandedOver:
			return result, err
		default:
			s.withdrawNotice(ctx, integrator.AssignmentID)
			s.setAssignment(ctx, integrator, integrator.Status)
			return result, err
		}
	}
}

// executeMergeOnce executes one activity of a merge.
func (s *sessionRun) executeMergeOnce(ctx workflow.Context, p *phase, integrator *assignment, in activities.MergeInput) (result activities.MergeResult, err error) {
	p.Merges++
	queue := spec.AgentQueue(s.in.Store, s.Team.Personas[in.Integrator].Agent)
	working, cancel := workflow.WithCancel(agentContext(ctx, queue, s.Team.Retry,
		fmt.Sprintf("%s.%s.%d", in.Phase, spec.ReservedPersona, p.Merges), "merge and check phase "+in.Phase))
	defer cancel()
	started := mergePhase.start(working, in)
	if err := s.awaitActivity(ctx, integrator, started, cancel); err != nil {
		return result, err
	}
	return mergePhase.get(ctx, started)
}
