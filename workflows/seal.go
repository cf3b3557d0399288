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
	for n := 1; ; n++ {
		result, err := s.sealOnce(ctx, p, input, work, n)
		if err != nil {
			return false, err
		}
		if result.Failure == nil {
			if result.Kept != "" {
				integrator.Integrated = append(integrator.Integrated, team.Work{Delta: result.Kept})
			}
			return true, nil
		}
		wait, again := afterRound(*result.Failure, integrator.round, s.team.Retry)
		if !again {
			s.note(ctx, integrator, team.Failed)
			report := slices.Concat(integrator.Failures, []team.AttemptFailure{{Category: result.Failure.Category, Message: result.Failure.Message}})
			s.askForHelp(integrator.AssignmentID, *result.Failure, report, integrator.Usage)
			s.show(ctx)
			return false, nil
		}
		s.note(ctx, integrator, team.Waiting)
		summary := fmt.Sprintf("%s: the merged tree does not hold together (%s)", p.Name, result.Failure.Category)
		if err := pause(ctx, wait, summary); err != nil {
			return false, err
		}
		integrator.integrating, integrator.input, integrator.feedback = true, result.Tree, result.Feedback
		integrator.beside = entries(work)
		if ok, err := s.runRounds(ctx, integrator); err != nil || !ok {
			return false, err
		}
	}
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
