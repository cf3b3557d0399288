package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/team"
)

// lastReportLimit bounds what a session that ends spends on telling breakers
// what they have yet to hear.
const lastReportLimit = time.Minute

// errNotBegun ends a wait for a breaker because nothing new may start.
var errNotBegun = errors.New("the session ends before the round has begun")

// afterTurnedAway decides what a round does that its breaker has turned away: the
// agent's fallback does it if that may, else it waits. It returns the lease to try
// the agent with, if the round is to be a probe.
func (s *session) afterTurnedAway(ctx workflow.Context, a *assignment, turned activities.TurnedAway) (string, error) {
	a.Lost += turned.Lost
	other := s.fallbackOf(a)
	if a.agent == "" && other != "" && s.team.Personas[a.Persona].Fallback {
		a.agent, a.refused = other, &turned
		return "", nil
	}
	if a.refused != nil { // the fallback's breaker is open, too
		turned, a.agent, a.refused = *a.refused, "", nil
	}
	return s.awaitBreaker(ctx, a, turned)
}

// awaitBreaker waits until the breaker lets the assignment try again: one
// activity, however long that takes. It returns the lease to try it with, if the
// round is to be a probe.
func (s *session) awaitBreaker(ctx workflow.Context, a *assignment, turned activities.TurnedAway) (string, error) {
	waiting, cancel := workflow.WithCancel(ctx)
	defer cancel()
	a.awaits = &turned.Wait
	a.Rounds-- // it has not begun
	s.noteWait(ctx, a, team.Waiting)
	future := workflow.ExecuteActivity(waitContext(waiting, fmt.Sprintf("%s.%s.breaker.%d", a.Phase, a.Persona, a.waits),
		fmt.Sprintf("%s waits for breaker %s", a.AssignmentID, turned.Breaker.Name)), string(activities.AwaitBreakerName), activities.AwaitInput{
		AssignmentID: a.AssignmentID, Incarnation: s.status.Incarnation, Breaker: turned.Breaker, Wait: turned.Wait,
	})
	err := workflow.Await(ctx, func() bool { return future.IsReady() || s.stopping() })
	a.awaits = nil
	if err == nil && !future.IsReady() {
		s.noteWait(ctx, a, team.Pending)
		return "", errNotBegun
	}
	var awaited activities.Awaited
	if err := future.Get(ctx, &awaited); err != nil {
		return "", err
	}
	a.Rounds++
	s.noteWait(ctx, a, team.Running)
	return awaited.Lease, nil
}

// noteWait takes the beginning or end of a wait into the status, and tells
// visibility where that changes what the whole session does.
func (s *session) noteWait(ctx workflow.Context, a *assignment, state team.State) {
	before := s.status.Status
	s.note(ctx, a, state)
	if s.status.Status != before {
		s.publish(ctx)
	}
}

// carry keeps an outcome that a breaker has yet to hear of for the next boundary.
func (s *session) carry(report *team.BreakerReport) {
	if report != nil {
		s.unreported = append(s.unreported, *report)
	}
}

// reportLast tells breakers what they have yet to hear before the session ends.
// What cannot be told by then is lost, and said so.
func (s *session) reportLast(ctx workflow.Context) {
	if len(s.unreported) == 0 {
		return
	}
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: localLimit, Summary: string(activities.ReportBreakerName),
	})
	for deadline := workflow.Now(ctx).Add(lastReportLimit); len(s.unreported) > 0 && workflow.Now(ctx).Before(deadline); {
		var left []team.BreakerReport
		if err := workflow.ExecuteLocalActivity(ctx, string(activities.ReportBreakerName), s.unreported).Get(ctx, &left); err == nil {
			s.unreported = left
		}
		if len(s.unreported) > 0 {
			if err := pause(ctx, 10*time.Second, "breakers have yet to hear how rounds ended"); err != nil {
				break
			}
		}
	}
	if len(s.unreported) > 0 {
		workflow.GetLogger(ctx).Warn("breakers never heard how rounds ended", "rounds", len(s.unreported))
	}
}
