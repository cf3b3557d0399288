package workflows

import (
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/team"
)

// seal merges the personas' work and has it verified. While the merged tree
// does not hold together, the integrator gets a further round on it, told what
// is wrong. It returns false after asking for help.
func (s *session) seal(ctx workflow.Context, p team.Phase, input team.Digest, work []*assignment) (bool, error) {
	integrator := work[len(work)-1]
	for _, a := range work {
		if a.Persona == p.Integrator {
			integrator = a
		}
	}
	for {
		result, err := s.merge(ctx, integrator, activities.SealInput{
			Phase: p.Name, Integrator: p.Integrator, Incarnation: s.status.Incarnation, Head: s.head, Input: input, Assignments: entries(work),
		})
		if err != nil {
			return false, unlessOver(err)
		}
		if result.Failure == nil {
			if result.Kept != "" {
				integrator.Integrated = append(integrator.Integrated, team.Work{Delta: result.Kept})
			}
			return true, nil
		}
		integrator.integrating, integrator.input, integrator.feedback = true, result.Tree, result.Feedback
		integrator.beside = entries(work)
		if ok, err := s.mayMend(ctx, p, integrator, *result.Failure); err != nil || !ok || integrator.settled {
			return ok, err
		}
		if ok, err := s.runRounds(ctx, integrator); err != nil || !ok || integrator.settled {
			return ok, err
		}
	}
}

// mayMend waits until the integrator has its next round: for a while, or for a
// person's word if its rounds are spent. It returns false in a session that ends.
func (s *session) mayMend(ctx workflow.Context, p team.Phase, integrator *assignment, f team.Failure) (bool, error) {
	wait, again := afterRound(f, integrator.round, s.team.Retry)
	if !again {
		s.note(ctx, integrator, team.Failed)
		report := slices.Concat(integrator.Failures, []team.AttemptFailure{{Category: f.Category, Message: f.Message}})
		then, err := s.askFor(ctx, integrator, f, report)
		s.show(ctx)
		return then != itEnds, err
	}
	s.note(ctx, integrator, team.Waiting)
	return true, pause(ctx, wait, fmt.Sprintf("%s: the merged tree does not hold together (%s)", p.Name, f.Category))
}

// merge executes a merge, in as many activities as its host makes of it: trouble of the
// host is waited out, and people are notified of it after the team's patience.
// errNotBegun says that the session ends.
func (s *session) merge(ctx workflow.Context, integrator *assignment, in activities.SealInput) (activities.SealResult, error) {
	for {
		result, err := s.sealOnce(ctx, integrator, in)
		stop, lasts := detail[activities.OutageStop](err, team.ProviderOutage)
		switch {
		case lasts:
			in.Outage = activities.OutageNoticed
			if err := s.afterOutage(ctx, integrator, stop, team.Retrying, team.Aborting); err != nil {
				return result, err
			}
		case errors.Is(err, errTryNow):
			in.Outage = ""
		default:
			s.outageOver(ctx, integrator.AssignmentID)
			s.note(ctx, integrator, integrator.Status)
			return result, err
		}
	}
}

// sealOnce executes one activity of a merge.
func (s *session) sealOnce(ctx workflow.Context, integrator *assignment, in activities.SealInput) (result activities.SealResult, err error) {
	s.seals[in.Phase]++
	agent := s.team.Personas[in.Integrator].Agent
	working, cancel := workflow.WithCancel(s.agentContext(ctx, agent, fmt.Sprintf("%s.seal.%d", in.Phase, s.seals[in.Phase]), "merge and check phase "+in.Phase))
	defer cancel()
	future := workflow.ExecuteActivity(working, string(activities.SealName), in)
	if err := s.attend(ctx, integrator, future, cancel); err != nil {
		return result, err
	}
	err = future.Get(ctx, &result)
	return result, err
}
