package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/budget"
)

// awaitDay has somebody look when the team's day can pay again, if it is the day
// that could not: at midnight, or when it is raised or something given back.
func (s *session) awaitDay(ctx workflow.Context, a *assignment) workflow.Future {
	stop := s.broke[a.AssignmentID]
	ctx = waitContext(ctx, fmt.Sprintf("%s.%s.day.%d", a.Phase, a.Persona, a.waits),
		fmt.Sprintf("%s waits for the daily budget of team %s", a.AssignmentID, s.team.Name))
	return workflow.ExecuteActivity(ctx, string(activities.AwaitDayName), activities.AwaitDayInput{
		AssignmentID: a.AssignmentID, Team: s.team.Name, Date: stop.Date, Least: stop.Least,
	})
}

// dayAdvice says when the day is over, and how it is raised by who cannot wait.
func (s *session) dayAdvice(stop activities.BudgetStop) string {
	return fmt.Sprintf("the session goes on by itself at %s; go on at once with `maestro budget raise --team %s --tokens N` (or --usd N), or with the update `%s` and `{\"tokens\": N}` to workflow %s",
		budget.NextDay(stop.Date).Format("2006-01-02 15:04 UTC"), s.team.Name, RaiseDayUpdate, DailyBudgetID(s.in.Store, s.team.Name))
}
