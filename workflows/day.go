package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/team"
)

// awaitDay has somebody look when the team's day can pay again, if it is the day
// that could not: at midnight, or when it is raised or something given back.
func (s *session) awaitDay(ctx workflow.Context, a *assignment) workflow.Future {
	stop := s.broke[a.AssignmentID]
	if stop.Date == "" {
		never, _ := workflow.NewFuture(ctx)
		return never
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ActivityID:          fmt.Sprintf("%s.%s.day.%d", a.Phase, a.Persona, a.waits),
		StartToCloseTimeout: 10 * backstop,
		HeartbeatTimeout:    heartbeatTimeout,
		Summary:             fmt.Sprintf("%s waits for the daily budget of team %s", a.AssignmentID, s.team.Name),
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
	})
	return workflow.ExecuteActivity(ctx, string(activities.AwaitDayName), activities.AwaitDayInput{
		AssignmentID: a.AssignmentID, Team: s.team.Name, Date: stop.Date, Least: stop.Least,
	})
}

// dayRequest says what a person can do about a day that is spent, who need not do
// anything.
func (s *session) dayRequest(a *assignment, stop activities.BudgetStop) team.HelpRequest {
	return team.HelpRequest{
		ID: fmt.Sprintf("%s.%s.budget.%d", a.Phase, a.Persona, a.waits), Phase: a.Phase, Persona: a.Persona,
		Category: team.TokenBudget, Message: stop.Message, Attempts: append([]team.AttemptFailure{}, a.Failures...), Usage: a.Usage,
		Advice: fmt.Sprintf("the session goes on by itself at %s; go on at once with `maestro budget raise --team %s --tokens N` (or --usd N), or with the update %s and {\"tokens\": N} to workflow %s",
			budget.NextDay(stop.Date).Format("2006-01-02 15:04 UTC"), s.team.Name, RaiseDayUpdate, DailyBudgetID(s.in.Store, s.team.Name)),
	}
}
