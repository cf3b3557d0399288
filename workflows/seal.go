package workflows

import (
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
		s.seals[p.Name]++
		result, err := s.sealOnce(ctx, p, input, work, s.seals[p.Name])
		if err != nil {
			return false, err
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

func (s *session) sealOnce(ctx workflow.Context, p team.Phase, input team.Digest, work []*assignment, n int) (activities.SealResult, error) {
	agent := s.team.Personas[p.Integrator].Agent
	ctx = s.agentContext(ctx, agent, fmt.Sprintf("%s.seal.%d", p.Name, n), "merge and check phase "+p.Name)
	var result activities.SealResult
	err := workflow.ExecuteActivity(ctx, string(activities.SealName), activities.SealInput{
		Phase: p.Name, Head: s.head, Input: input, Assignments: entries(work),
	}).Get(ctx, &result)
	return result, err
}
