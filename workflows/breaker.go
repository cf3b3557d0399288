package workflows

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// afterRefusal decides how a round continues that its breaker has refused: with the
// agent's fallback if that is permitted, otherwise it waits. It returns the lease of
// the probe, if the round is to be one.
func (s *sessionRun) afterRefusal(ctx workflow.Context, a *assignment,
	turned activities.BreakerStop,
) (session.BreakerPermit, error) {
	other := s.fallbackOf(a)
	if a.Substitute == "" && other != "" && s.Team.Personas[a.Persona].Fallback {
		a.Substitute, a.Refused = other, &turned
		return session.BreakerPermit{}, nil
	}
	if a.Refused != nil { // the fallback's breaker is open, too
		turned, a.Substitute, a.Refused = *a.Refused, "", nil
	}
	return s.waitForBreaker(ctx, a, turned)
}

// waitForBreaker waits until the breaker permits the round. The wait is one activity,
// whatever its duration. It returns the lease of the probe, if the round is to be one.
// When the team's patience is over, people are notified; errPatienceOver means that the
// round must fail then.
func (s *sessionRun) waitForBreaker(ctx workflow.Context, a *assignment,
	turned activities.BreakerStop,
) (session.BreakerPermit, error) {
	waiting, cancel := workflow.WithCancel(ctx)
	defer cancel()
	a.awaits = &turned.Wait
	a.Rounds-- // it has not begun
	s.updateWait(ctx, a, session.Waiting)
	started := awaitBreaker.start(waitContext(waiting, fmt.Sprintf("%s.%s.breaker.%d", a.Phase, a.Persona, a.Continuations),
		fmt.Sprintf("%s waits for breaker %s", a.AssignmentID, turned.Breaker.Name)), activities.AwaitInput{
		AssignmentID: a.AssignmentID, Breaker: turned.Breaker, Wait: turned.Wait,
	})
	err := s.untilAdmitted(ctx, a, turned, started, cancel)
	a.awaits = nil
	if errors.Is(err, errTryNow) || errors.Is(err, errPatienceOver) {
		a.Rounds++
		s.updateWait(ctx, a, session.Running)
		return session.BreakerPermit{}, err
	}
	var said *answeredError
	switch {
	case errors.Is(err, errStopped):
		return session.BreakerPermit{}, s.leaveBreaker(ctx, a)
	case errors.As(err, &said):
		a.Rounds++
		return session.BreakerPermit{}, err
	}
	var awaited activities.Awaited
	if err != nil || started.IsReady() {
		var err error
		if awaited, err = awaitBreaker.get(ctx, started); err != nil {
			return session.BreakerPermit{}, err
		}
	}
	if err == nil && s.ending.stopping() { // the lease of a probe expires
		return session.BreakerPermit{}, s.leaveBreaker(ctx, a)
	}
	a.Rounds++
	s.updateWait(ctx, a, session.Running)
	return awaited.Lease, nil
}

// leaveBreaker ends an assignment's wait for a breaker, because nothing new may start.
func (s *sessionRun) leaveBreaker(ctx workflow.Context, a *assignment) error {
	s.updateWait(ctx, a, session.Pending)
	if s.ending.continuesAsNew() { // the next run continues the round
		a.Rounds++
	}
	return errStopped
}

// updateWait sets the begin or the end of an assignment's wait in the status. If that changes
// the status of the whole session, it publishes and stores the status before work continues.
func (s *sessionRun) updateWait(ctx workflow.Context, a *assignment, state session.State) {
	before := s.Status.Status
	s.setAssignment(ctx, a, state)
	if s.Status.Status == before {
		return
	}
	s.publish(ctx)
	if err := s.saveStatus(ctx, nil); err != nil { // the session is cancelled, or the phase is done again
		workflow.GetLogger(ctx).Warn("a wait could not be stored", "error", err)
	}
}

// untilAdmitted waits for the end of the activity that awaits a breaker, or for an event
// that ends the wait early.
func (s *sessionRun) untilAdmitted(ctx workflow.Context, a *assignment, turned activities.BreakerStop, future workflow.Future,
	cancel func(),
) error {
	timing, done := workflow.WithCancel(ctx)
	defer done()
	patience := s.breakerPatience(timing, a, turned)
	if err := workflow.Await(ctx, func() bool {
		return future.IsReady() || s.ending.stopping() || patience.IsReady() || a.notice != nil
	}); err != nil || future.IsReady() || s.ending.stopping() {
		return err
	}
	if patience.IsReady() {
		if s.Team.Retry.OnOutage == spec.OutageFail {
			cancel()
			return errPatienceOver
		}
		category := failures.APIError
		if turned.Outage != nil {
			category = turned.Outage.Failure.Category
		}
		if err := s.openNotice(ctx, a, category, turned.Wait.String(), session.ForOutage.Rule().Actions); err != nil {
			return err
		}
	}
	if err := s.awaitResultOrAnswer(ctx, a, future, cancel); err != nil {
		return err
	}
	return workflow.Await(ctx, func() bool { return future.IsReady() || s.ending.stopping() })
}
