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
func (s *session) afterTurnedAway(ctx workflow.Context, a *assignment, turned activities.TurnedAway) (lease, error) {
	other := s.fallbackOf(a)
	if a.agent == "" && other != "" && s.team.Personas[a.Persona].Fallback {
		a.agent, a.refused = other, &turned
		return lease{}, nil
	}
	if a.refused != nil { // the fallback's breaker is open, too
		turned, a.agent, a.refused = *a.refused, "", nil
	}
	return s.awaitBreaker(ctx, a, turned)
}

// awaitBreaker waits until the breaker lets the assignment try again: one
// activity, however long that takes. It returns the lease to try it with, if the
// round is to be a probe. People are notified once the team's patience is over;
// errPatienceOver says that the round is to fail then.
func (s *session) awaitBreaker(ctx workflow.Context, a *assignment, turned activities.TurnedAway) (lease, error) {
	waiting, cancel := workflow.WithCancel(ctx)
	defer cancel()
	a.awaits = &turned.Wait
	a.Rounds-- // it has not begun
	s.noteWait(ctx, a, team.Waiting)
	future := workflow.ExecuteActivity(waitContext(waiting, fmt.Sprintf("%s.%s.breaker.%d", a.Phase, a.Persona, a.waits),
		fmt.Sprintf("%s waits for breaker %s", a.AssignmentID, turned.Breaker.Name)), string(activities.AwaitBreakerName), activities.AwaitInput{
		AssignmentID: a.AssignmentID, Incarnation: s.status.Incarnation, Breaker: turned.Breaker, Wait: turned.Wait,
	})
	err := s.untilLetThrough(ctx, a, turned, future, cancel)
	a.awaits = nil
	if errors.Is(err, errTryNow) || errors.Is(err, errPatienceOver) {
		a.Rounds++
		s.noteWait(ctx, a, team.Running)
		return lease{}, err
	}
	var awaited activities.Awaited
	if err != nil || future.IsReady() {
		if err := future.Get(ctx, &awaited); err != nil {
			return lease{}, err
		}
	}
	got := lease{breaker: turned.Breaker, BreakerPass: awaited.Lease}
	if err == nil && s.stopping() {
		s.giveBack(ctx, got)
		s.noteWait(ctx, a, team.Pending)
		return lease{}, errNotBegun
	}
	a.Rounds++
	s.noteWait(ctx, a, team.Running)
	return got, nil
}

// lease is that of a breaker's probe, under which a round tries its agent; its zero: the
// round is an ordinary one.
type lease struct {
	breaker team.Breaker
	team.BreakerPass
}

// giveBack ends a probe that may not have begun; one that has begun has ended its lease
// itself. Where the breaker cannot be told, the lease runs out.
func (s *session) giveBack(ctx workflow.Context, l lease) {
	if l.Holder == "" {
		return
	}
	patient, _ := workflow.NewDisconnectedContext(ctx)
	reports := []team.BreakerReport{l.GiveBack(l.breaker, workflow.Now(ctx))}
	if err := workflow.ExecuteLocalActivity(reportContext(patient), string(activities.ReportBreakerName), reports).Get(patient, nil); err != nil {
		workflow.GetLogger(ctx).Warn("a lease that nobody needs has to run out", "breaker", l.breaker.Name, "error", err)
	}
}

// reportContext is for telling breakers how rounds have ended.
func reportContext(ctx workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: localLimit, Summary: string(activities.ReportBreakerName),
	})
}

// untilLetThrough waits for the end of the activity that awaits a breaker, or for what
// makes that needless.
func (s *session) untilLetThrough(ctx workflow.Context, a *assignment, turned activities.TurnedAway, future workflow.Future, cancel func()) error {
	timing, done := workflow.WithCancel(ctx)
	defer done()
	impatient := s.impatient(timing, a, turned)
	if err := workflow.Await(ctx, func() bool {
		return future.IsReady() || s.stopping() || impatient.IsReady() || s.outages[a.AssignmentID] != nil
	}); err != nil || future.IsReady() || s.stopping() {
		return err
	}
	if impatient.IsReady() {
		if s.team.Retry.OnOutage == team.OutageFail {
			cancel()
			return errPatienceOver
		}
		category := team.APIError
		if turned.Outage != nil {
			category = turned.Outage.Failure.Category
		}
		if err := s.noticeOutage(ctx, a, category, turned.Wait.String(), answersForWork()); err != nil {
			return err
		}
	}
	if err := s.attend(ctx, a, future, cancel); err != nil {
		return err
	}
	return workflow.Await(ctx, func() bool { return future.IsReady() || s.stopping() })
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
	ctx = reportContext(ctx)
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
