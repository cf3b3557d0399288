package workflows

import (
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// merges merges and verifies the work of a phase's personas.
type merges struct {
	rounds *rounds
}

// run merges a phase. While the merged tree has a failure, the integrator gets a further
// round on it, with the failure as feedback.
func (m *merges) run(ctx workflow.Context, p *pass) (bool, error) {
	integrator := p.work[len(p.work)-1]
	for _, a := range p.work {
		if a.Persona == p.Integrator {
			integrator = a
		}
	}
	for {
		if !integrator.pending() { // otherwise an earlier run has merged, and the integrator has a round to do
			if merged, again, err := m.runOnce(ctx, p, integrator); err != nil || !again {
				return merged, err
			}
		}
		integrator.beside = entries(p.work)
		if ok, err := m.rounds.run(ctx, integrator); err != nil || !ok || integrator.accepted {
			return ok, err
		}
	}
}

// runOnce executes one merge. again: the tree needs another round of the integrator first.
func (m *merges) runOnce(ctx workflow.Context, p *pass, integrator *assignment) (merged, again bool, err error) {
	if m.rounds.ending.handsOver() {
		return false, false, nil
	}
	work, err := phaseWork(ctx, entries(p.work))
	if err != nil {
		return false, false, err
	}
	result, err := m.execute(ctx, p.phase, integrator, activities.MergeInput{
		Phase: p.Name, Integrator: p.Integrator, Head: m.rounds.status.Checkpoint,
		Input: p.input, Assignments: work,
	})
	if err != nil {
		return false, false, ignoreSessionEnd(err)
	}
	before := integrator.Dropped
	integrator.drops(result.Dropped)
	if result.Failure == nil {
		if !slices.Equal(before, integrator.Dropped) {
			m.rounds.publisher.update(ctx, integrator, integrator.Status)
		}
		if result.Kept != "" {
			integrator.Integrated = append(integrator.Integrated, session.Work{Delta: result.Kept})
		}
		return true, false, nil
	}
	integrator.Integrating, integrator.From, integrator.Feedback = true, result.Tree, result.Feedback
	ok, err := m.waitForRound(ctx, integrator, *result.Failure)
	return ok, ok && !integrator.accepted, err
}

// waitForRound waits until the integrator may begin its next round: for the retry wait, or for
// a person if its rounds are used up. It returns false in a session that ends.
func (m *merges) waitForRound(ctx workflow.Context, integrator *assignment, f failures.Failure) (bool, error) {
	wait, again := afterRound(f, integrator.Round, m.rounds.team.Retry)
	if !again {
		m.rounds.publisher.update(ctx, integrator, session.Failed)
		integrator.nextStep = askPerson(f)
		report := slices.Concat(integrator.Failures, []session.AttemptFailure{{Category: f.Category, Message: f.Message}})
		then, err := m.rounds.requests.askForHelp(ctx, integrator, f, report)
		m.rounds.publisher.show(ctx)
		return then != outcomeEnded, err
	}
	m.rounds.publisher.update(ctx, integrator, session.Waiting)
	return true, m.rounds.pause(ctx, integrator, wait, fmt.Sprintf("%s: the merged tree has a conflict or fails a check (%s)", integrator.Phase, f.Category))
}

// execute executes a merge. A failure of the host is waited out, with a further activity after
// each wait, and people are notified after the team's patience. errSessionEnds means that the
// session ends.
func (m *merges) execute(ctx workflow.Context, p *phase, integrator *assignment, in activities.MergeInput) (activities.MergeResult, error) {
	outages := m.rounds.outages
	if integrator.notice != nil { // an earlier run's
		in.Outage = activities.OutageNoticed
	}
	for {
		result, err := m.executeOnce(ctx, p, integrator, in)
		stop, lasts := detail[activities.OutageStop](err, session.ProviderOutage)
		switch {
		case lasts:
			in.Outage = activities.OutageNoticed
			if err := outages.after(ctx, integrator, stop, session.AnswerRetry, session.AnswerAbort); err != nil {
				return result, err
			}
		case errors.Is(err, errTryNow):
			in.Outage = ""
		case errors.Is(err, errSessionEnds) && m.rounds.ending.handsOver():
			return result, err
		default:
			outages.withdraw(ctx, integrator.AssignmentID)
			m.rounds.publisher.update(ctx, integrator, integrator.Status)
			return result, err
		}
	}
}

// executeOnce executes one activity of a merge.
func (m *merges) executeOnce(ctx workflow.Context, p *phase, integrator *assignment, in activities.MergeInput) (result activities.MergeResult, err error) {
	p.merges++
	queue := spec.AgentQueue(m.rounds.store, m.rounds.team.Personas[in.Integrator].Agent)
	working, cancel := workflow.WithCancel(agentContext(ctx, queue, m.rounds.team.Retry,
		fmt.Sprintf("%s.%s.%d", in.Phase, spec.ReservedPersona, p.merges), "merge and check phase "+in.Phase))
	defer cancel()
	started := mergePhase.start(working, in)
	if err := m.rounds.outages.await(ctx, integrator, started, cancel); err != nil {
		return result, err
	}
	return mergePhase.get(ctx, started)
}
