package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/budget"
)

// awaitBudget has a worker look when the budget that has stopped an assignment can
// pay again: it was raised, something was given back or settled, or the day is over.
func (s *session) awaitBudget(ctx workflow.Context, a *assignment) workflow.Future {
	stop := s.broke[a.AssignmentID]
	ctx = waitContext(ctx, fmt.Sprintf("%s.%s.budget.%d", a.Phase, a.Persona, a.waits),
		fmt.Sprintf("%s waits for the budget of %s", a.AssignmentID, budget.Label(stop.Scope)))
	return workflow.ExecuteActivity(ctx, string(activities.AwaitBudgetName), activities.AwaitBudgetInput{
		AssignmentID: a.AssignmentID, Scope: stop.Scope, Team: s.team.Name, Date: stop.Date, Least: stop.Least,
	})
}
