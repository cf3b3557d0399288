package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/team"
)

// OutageSignal tells a session that an assignment's agent meets an outage that lasts, or
// that it is over. Its argument is an [activities.OutageNews].
const OutageSignal = "outage"

// How a wait for a provider or its breaker ends early.
var (
	// errTryNow: a person wants it tried at once.
	errTryNow = errors.New("a person has it tried now")
	// errPatienceOver: the round is to fail, because the team waits no longer.
	errPatienceOver = errors.New("the team waits no longer")
)

// takeOutages notes which rounds wait for a provider, and withdraws notices of outages that
// are over while the round still works.
func (s *session) takeOutages(ctx workflow.Context) {
	signals := workflow.GetSignalChannel(ctx, OutageSignal)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var news activities.OutageNews
			signals.Receive(ctx, &news)
			if news.Over {
				s.outageOver(ctx, news.AssignmentID)
				continue
			}
			s.lasting[news.AssignmentID] = news
			s.renewNotice(ctx, news)
		}
	})
}

// afterOutage decides what a round does whose provider has been away for longer than the
// team's patience: it goes on waiting, and people are notified, who may answer.
func (s *session) afterOutage(ctx workflow.Context, a *assignment, stop activities.OutageStop, answers ...team.Verb) error {
	a.Usage = stop.Total
	s.outageOver(ctx, a.AssignmentID) // an earlier one, of whose end nobody has told
	f := team.AttemptFailure{Category: stop.Failure.Category, Message: stop.Failure.Message}
	return s.noticeOutage(ctx, a, f.Category, failingSince(stop.Since, f), answers)
}

// failingSince says what an outage is.
func failingSince(since time.Time, f team.AttemptFailure) string {
	return fmt.Sprintf("the %s has failed since %s UTC (%s: %s)", f.Category.Awaited(), since.UTC().Format(time.DateTime), f.Category, f.Message)
}

// noticeOutage notifies people that an assignment waits for its provider. Nobody has to
// answer: it goes on by itself. errNotBegun says that the session ends.
func (s *session) noticeOutage(ctx workflow.Context, a *assignment, c team.Category, message string, answers []team.Verb) error {
	if s.stopping() {
		return errNotBegun
	}
	r := s.newRequest(ctx, team.HelpRequest{
		Kind: team.ForOutage, Phase: a.Phase, Persona: a.Persona, Category: c, Message: team.Shorten(message, team.MaxMessage),
		Suggestion: goesOn(c),
		Answers:    answers,
		Attempts:   append([]team.AttemptFailure{}, a.Failures...), Usage: a.Usage,
	})
	r.own = a.ownWork()
	s.outages[a.AssignmentID] = r
	if err := s.standBy(ctx, a, team.Waiting, nil); err != nil {
		return err
	}
	r.told = true
	s.tell(ctx, team.HelpAsked, &r.HelpRequest, nil)
	return nil
}

func goesOn(c team.Category) string {
	return fmt.Sprintf("the session goes on by itself once the %s is back; nothing is used up until then", c.Awaited())
}

// renewNotice has the notice of an outage say what its cause is by now.
func (s *session) renewNotice(ctx workflow.Context, news activities.OutageNews) {
	r := s.outages[news.AssignmentID]
	if r == nil || r.answer != nil || r.Category == news.Failure.Category {
		return
	}
	r.Category, r.Message = news.Failure.Category, team.Shorten(failingSince(news.Since, news.Failure), team.MaxMessage)
	r.Suggestion = goesOn(r.Category)
	r.Advice = s.howToAnswer(r)
	s.listRequests()
	s.showOutages(ctx)
}

// showOutages has everybody see what has become of the notices of outages.
func (s *session) showOutages(ctx workflow.Context) {
	s.standing()
	s.publish(ctx)
	s.remember(ctx)
	if err := s.keep(ctx, "", nil); err != nil {
		workflow.GetLogger(ctx).Warn("the store does not know how an outage stands", "error", err)
	}
}

// outageOver withdraws the notice of an assignment's outage, if there is one.
func (s *session) outageOver(ctx workflow.Context, id team.AssignmentID) {
	delete(s.lasting, id)
	r := s.outages[id]
	if r == nil {
		return
	}
	delete(s.outages, id)
	s.withdraw(ctx, r)
	s.showOutages(ctx)
}

// attend waits for an activity of an assignment. Where people know of an outage, an answer
// of theirs, the end of the team's patience with all people, and that of the session end
// the activity. It returns nil if the activity's own end counts.
func (s *session) attend(ctx workflow.Context, a *assignment, doing workflow.Future, stop func()) error {
	r := s.outages[a.AssignmentID]
	if r == nil {
		return s.attendQuietly(ctx, a, doing, stop)
	}
	waiting, cancel := workflow.WithCancel(ctx)
	defer cancel()
	timer := never(ctx)
	if !r.Until.IsZero() {
		timer = workflow.NewTimerWithOptions(waiting, r.Until.Sub(workflow.Now(ctx)), workflow.TimerOptions{
			Summary: team.Shorten(fmt.Sprintf("%s waits for its %s. The tab User Metadata says what can be done", a.AssignmentID, r.Category.Awaited()), 200),
		})
	}
	err := workflow.Await(ctx, func() bool {
		return doing.IsReady() || r.over || r.answer != nil || s.stopping() || timer.IsReady()
	})
	if err != nil || doing.IsReady() || r.over {
		return nil //nolint:nilerr // the activity is cancelled, too
	}
	ended := stopped(ctx, doing, stop)
	if ended == nil || !temporal.IsCanceledError(ended) && r.answer == nil {
		return nil
	}
	a.interrupt(ended)
	switch {
	case r.answer != nil:
		return s.heed(ctx, a, r)
	case s.stopping():
		return errNotBegun
	}
	r.over = true
	s.end(ctx, a, r, fmt.Sprintf("the %s was not back within %s", r.Category.Awaited(), s.team.Help.GiveUpAfter))
	return errNotBegun
}

// attendQuietly is attend where nobody has been notified: a session that ends does not
// wait for the end of an outage. What is really at work is finished.
func (s *session) attendQuietly(ctx workflow.Context, a *assignment, doing workflow.Future, stop func()) error {
	waits := func() bool {
		_, lasts := s.lasting[a.AssignmentID]
		return lasts && s.stopping()
	}
	err := workflow.Await(ctx, func() bool { return doing.IsReady() || waits() })
	if err != nil || doing.IsReady() {
		return nil //nolint:nilerr // the activity is cancelled, too
	}
	news := s.lasting[a.AssignmentID]
	ended := stopped(ctx, doing, stop)
	if !temporal.IsCanceledError(ended) {
		return nil
	}
	a.Usage = news.Total
	a.interrupt(ended)
	s.note(ctx, a, team.Waiting)
	return errNotBegun
}

// stopped ends an activity, and returns how it has ended.
func stopped(ctx workflow.Context, doing workflow.Future, stop func()) error {
	stop()
	patient, _ := workflow.NewDisconnectedContext(ctx)
	return doing.Get(patient, nil)
}

// heed does what a person has answered to the notice of an outage.
func (s *session) heed(ctx workflow.Context, a *assignment, r *request) error {
	defer func() { r.over = true }()
	delete(s.outages, a.AssignmentID)
	delete(s.lasting, a.AssignmentID)
	answer := r.answer
	if answer.Verb == team.Aborting {
		return s.abort(ctx, a, r)
	}
	s.forget(r)
	answer.Settles = answer.Verb == team.Skipping && r.own
	if err := s.standBy(ctx, a, team.Running, answer); err != nil {
		return err
	}
	r.heeded = true
	s.tell(ctx, team.WentOn, &r.HelpRequest, answer)
	if answer.Verb == team.Retrying {
		if answer.Note != "" {
			a.note, s.notes[a.String()] = answer.Note, answer.Note
		}
		return errTryNow
	}
	return &answered{*answer}
}

// impatient is ready when people are to be notified of an assignment that waits for a
// breaker, or when its round is to fail; nil: never.
func (s *session) impatient(ctx workflow.Context, a *assignment, turned activities.TurnedAway) workflow.Future {
	fails := s.team.Retry.OnOutage == team.OutageFail
	if turned.PatienceUntil.IsZero() || s.outages[a.AssignmentID] != nil || fails && turned.Outage == nil {
		return never(ctx)
	}
	return workflow.NewTimerWithOptions(ctx, max(turned.PatienceUntil.Sub(workflow.Now(ctx)), 0), workflow.TimerOptions{
		Summary: fmt.Sprintf("patience of %s with breaker %s", a.AssignmentID, turned.Breaker.Name),
	})
}

// orderAfter says how the next activity of a round goes on with an outage.
func (s *session) orderAfter(a *assignment, err error) activities.OutageOrder {
	switch {
	case errors.Is(err, errTryNow):
		return activities.OutageRetry
	case errors.Is(err, errPatienceOver):
		return activities.OutageOver
	case s.outages[a.AssignmentID] != nil:
		return activities.OutageNoticed
	}
	return ""
}
