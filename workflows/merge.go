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

// merges merges the work of a phase's personas, and has it verified.
type merges struct {
	rounds *rounds
}

// run merges a phase. While the merged tree
// does not hold together, the integrator gets a further round on it, told what
// is wrong.
func (m *merges) run(ctx workflow.Context, p *pass) (bool, error) {
	integrator := p.work[len(p.work)-1]
	for _, a := range p.work {
		if a.Persona == p.Integrator {
			integrator = a
		}
	}
	for {
		if !integrator.pending() { // else an earlier run has left it there
			if merged, again, err := m.once(ctx, p, integrator); err != nil || !again {
				return merged, err
			}
		}
		integrator.beside = entries(p.work)
		if ok, err := m.rounds.run(ctx, integrator); err != nil || !ok || integrator.accepted {
			return ok, err
		}
	}
}

// once executes one merge. again: the tree needs another round of the integrator first.
func (m *merges) once(ctx workflow.Context, p *pass, integrator *assignment) (merged, again bool, err error) {
	if m.rounds.ending.handsOver() {
		return false, false, nil
	}
	result, err := m.execute(ctx, p.phase, integrator, activities.MergeInput{
		Phase: p.Name, Integrator: p.Integrator, Incarnation: m.rounds.status.Incarnation, Head: m.rounds.status.Checkpoint,
		Input: p.input, Assignments: entries(p.work),
	})
	if err != nil {
		return false, false, ignoreSessionEnd(err)
	}
	if result.Failure == nil {
		if result.Kept != "" {
			integrator.Integrated = append(integrator.Integrated, session.Work{Delta: result.Kept})
		}
		return true, false, nil
	}
	integrator.Integrating, integrator.From, integrator.Feedback = true, result.Tree, result.Feedback
	ok, err := m.waitForRound(ctx, integrator, *result.Failure)
	return ok, ok && !integrator.accepted, err
}

// waitForRound waits until the integrator has its next round: for a while, or for a
// person if its rounds are spent. It returns false in a session that ends.
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

// execute executes a merge, in as many activities as its host makes of it: trouble of the
// host is waited out, and people are notified of it after the team's patience.
// errSessionEnds says that the session ends.
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
			outages.over(ctx, integrator.AssignmentID)
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
		fmt.Sprintf("%s.merge.%d", in.Phase, p.merges), "merge and check phase "+in.Phase))
	defer cancel()
	started := mergePhase.start(working, in)
	if err := m.rounds.outages.await(ctx, integrator, started, cancel); err != nil {
		return result, err
	}
	return mergePhase.get(ctx, started)
}
