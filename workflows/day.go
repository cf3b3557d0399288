package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
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
