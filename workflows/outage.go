package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// OutageSignal reports to a session that the outage of an assignment's agent lasts, or
// that it is over. Its argument is an [activities.OutageNews].
const OutageSignal = "outage"

// Errors that end a wait for a provider or its breaker early.
var (
	// errTryNow: a person has requested a try at once.
	errTryNow = errors.New("retried by a person")
	// errPatienceOver: the round must fail, because the team's patience is over.
	errPatienceOver = errors.New("the team's patience is over")
)

// noteOutage handles the signals of rounds that wait for a provider. It withdraws notices of
// outages that are over while the round still works.
func (s *sessionRun) noteOutage(ctx workflow.Context, news activities.OutageNews) {
	state := s.Schedule.assignment(news.AssignmentID)
	switch {
	case state == nil:
	case news.Over:
		s.withdrawNotice(ctx, news.AssignmentID)
	default:
		state.outage = &news
		s.updateNotice(ctx, news)
	}
}

// afterOutage handles a round whose provider has failed for longer than the team's patience: the
// round continues waiting, and people are notified, who may answer.
func (s *sessionRun) afterOutage(ctx workflow.Context, a *assignment, stop activities.OutageStop,
	answers ...session.Action,
) error {
	a.setUsage(stop.RoundReport)
	s.withdrawNotice(ctx, a.AssignmentID) // an earlier one, whose end no signal reported
	f := session.AttemptFailure{Category: stop.Failure.Category, Message: stop.Failure.Message}
	return s.openNotice(ctx, a, f.Category, failingSince(stop.Since, f), answers)
}

// failingSince returns a sentence on an outage.
func failingSince(since time.Time, f session.AttemptFailure) string {
	return fmt.Sprintf("the %s has failed since %s UTC (%s: %s)", f.Category.Awaited(), since.UTC().Format(time.DateTime),
		f.Category, f.Message)
}

// openNotice notifies people that an assignment waits for its provider. No answer is needed:
// the assignment continues by itself. errStopped means that the session ends.
func (s *sessionRun) openNotice(ctx workflow.Context, a *assignment, c failures.Category, message string,
	answers []session.Action,
) error {
	if s.ending.stopping() {
		return errStopped
	}
	r := s.openRequest(ctx, &request{OwnWork: a.ownWork(), Request: session.Request{
		Kind: session.ForOutage, Phase: a.Phase, Persona: a.Persona, Category: c, Message: textfmt.Shorten(message, session.MaxMessage),
		Suggestion: continuesByItself(c),
		Actions:    answers,
		Attempts:   append([]session.AttemptFailure{}, a.Failures...), Usage: a.Usage, SkipEffect: a.skipEffect(),
	}})
	a.notice = r
	if err := s.saveWait(ctx, a, session.Waiting, nil); err != nil {
		return err
	}
	r.Notified = true
	s.notify(ctx, session.HelpAsked, &r.Request, nil)
	return nil
}

func continuesByItself(c failures.Category) string {
	return fmt.Sprintf("the session continues by itself once the %s is available again; no attempt is counted until then",
		c.Awaited())
}

// updateNotice sets the current cause in the notice of an outage.
func (s *sessionRun) updateNotice(ctx workflow.Context, news activities.OutageNews) {
	r := s.Schedule.assignment(news.AssignmentID).notice
	if r == nil || r.Answer != nil || r.Category == news.Failure.Category {
		return
	}
	r.Category, r.Message = news.Failure.Category, textfmt.Shorten(failingSince(news.Since, news.Failure), session.MaxMessage)
	r.Suggestion = continuesByItself(r.Category)
	s.showRequests()
	s.storeNotices(ctx)
}

// storeNotices publishes and stores a change of the notices of outages.
func (s *sessionRun) storeNotices(ctx workflow.Context) {
	s.publishNow(ctx)
	if err := s.saveStatus(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("the state of an outage could not be stored", "error", err)
	}
}

// withdrawNotice withdraws the notice of an assignment's outage, if there is one.
func (s *sessionRun) withdrawNotice(ctx workflow.Context, id spec.AssignmentID) {
	state := s.Schedule.assignment(id)
	r := state.notice
	state.outage, state.notice = nil, nil
	if r == nil {
		return
	}
	s.withdrawRequest(ctx, r)
	s.storeNotices(ctx)
}

// applyToNotice applies a person's answer to the notice of an outage.
func (s *sessionRun) applyToNotice(ctx workflow.Context, a *assignment, r *request) error {
	defer func() { r.closed = true }()
	a.outage, a.notice = nil, nil
	if err := s.continueAfter(ctx, a, r); err != nil {
		return err
	}
	if r.Answer.Action == session.AnswerRetry {
		if r.Answer.Note != "" {
			a.Note = r.Answer.Note
		}
		return errTryNow
	}
	return &answeredError{*r.Answer}
}

// breakerPatience returns a future that is ready at the end of the team's patience with a breaker:
// then people are notified or the round fails; nil: never.
func (s *sessionRun) breakerPatience(ctx workflow.Context, a *assignment, turned activities.BreakerStop) workflow.Future {
	fails := s.Team.Retry.OnOutage == spec.OutageFail
	if turned.PatienceUntil.IsZero() || a.notice != nil || fails && turned.Outage == nil {
		return never(ctx)
	}
	return workflow.NewTimerWithOptions(ctx, max(turned.PatienceUntil.Sub(workflow.Now(ctx)), 0), workflow.TimerOptions{
		Summary: fmt.Sprintf("patience of %s with breaker %s", a.AssignmentID, turned.Breaker.Name),
	})
}

// outageStance returns how the next activity of a round continues in an outage.
func (s *sessionRun) outageStance(a *assignment, err error) activities.OutageStance {
	switch {
	case errors.Is(err, errTryNow):
		return activities.OutageRetry
	case errors.Is(err, errPatienceOver):
		return activities.OutageOver
	case a.notice != nil:
		return activities.OutageNoticed
	}
	return ""
}
