package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// requestHelp opens a request for help with an assignment that has failed for good, and applies the
// answer. If the team has `help.mode: fail`, the session ends instead. done: the assignment counts as done,
// without work; otherwise it has new rounds, or a person's files to look at.
func (s *sessionRun) requestHelp(ctx workflow.Context, a *assignment, f failures.Failure,
	attempts []session.AttemptFailure,
) (done bool, err error) {
	h := session.Request{
		Kind: session.ForHelp, Phase: a.Phase, Persona: a.Persona, Category: f.Category, Message: f.Message, Suggestion: f.Remedy(),
		Attempts: append([]session.AttemptFailure{}, attempts...), Usage: a.Usage, SkipEffect: a.skipEffect(),
	}
	if a.Integrating && f.Category == failures.ContractViolation {
		h.Suggestion = fmt.Sprintf("Retry has %s work on the merged files again, with your note; supply the merged files yourself; "+
			"or skip to keep them as they are: of a conflict the version of the last one named.", a.AssignmentID)
	}
	if err := ctx.Err(); err != nil { // the phase is done again, or the session is cancelled
		return false, err
	}
	if !s.asksAbout(a, f) || s.ending.failed() {
		s.failWithoutAsking(ctx, h)
		return false, errStopped
	}
	h.Actions = session.ForHelp.Rule().Actions
	answer, err := s.ask(ctx, a, s.openRequest(ctx, &request{Request: h, OwnWork: a.ownWork()}))
	if err != nil {
		return false, err
	}
	return s.applyAnswer(ctx, a, *answer), nil
}

// asksAbout reports whether a person is asked about an assignment that has failed. A delivery with `merge: ask` asks by itself.
func (s *sessionRun) asksAbout(a *assignment, f failures.Failure) bool {
	d := s.Schedule.byName[a.Phase].Deliver
	return s.Team.Help.Mode == spec.HelpAsk || f.Category == failures.NeedsPerson && d != nil && d.Merge == spec.MergeAsk
}

// failWithoutAsking fails the session without waiting for a person: because its team has
// `help.mode: fail`, or because it already ends.
func (s *sessionRun) failWithoutAsking(ctx workflow.Context, h session.Request) {
	r := s.openRequest(ctx, &request{Request: h})
	r.Until = time.Time{} // nothing is left to answer
	s.showRequests()
	s.setPhase(h.Phase, session.Failed)
	s.ending.failing = true
	if s.ending.request == nil {
		s.ending.request = r
	}
}

// ask makes an assignment wait until a person has answered, or until an answer is not needed
// any more: then it returns nil. Work that does not depend on the assignment continues
// meanwhile. errStopped means that no answer came in time, that a person has aborted the
// session, that other work has failed for good, or that the next run waits for the answer.
func (s *sessionRun) ask(ctx workflow.Context, a *assignment, r *request) (_ *session.Answer, err error) {
	defer func() { r.closed = !s.ending.continuesAsNew() || !errors.Is(err, errStopped) }()
	if r.Notified { // by an earlier run
		s.setAssignment(ctx, a, session.HelpIsNeeded)
		s.publishNow(ctx)
	} else if err := s.saveWait(ctx, a, session.HelpIsNeeded, nil); err != nil {
		return nil, s.interrupted(ctx, r, err)
	}
	if !r.Notified && !s.ending.failed() {
		r.Notified = true
		s.notify(ctx, session.HelpAsked, &r.Request, nil)
	}
	if err := s.awaitAnswer(ctx, a, r); err != nil {
		return nil, s.interrupted(ctx, r, err)
	}
	return r.Answer, s.continueAfter(ctx, a, r)
}

// interrupted withdraws a request whose phase is repeated. It keeps the request of a session
// that ends: the end of the session reports it.
func (s *sessionRun) interrupted(ctx workflow.Context, r *request, err error) error {
	if temporal.IsCanceledError(err) && s.Schedule.recalled(r.Phase) {
		s.withdrawRequest(ctx, r)
	}
	return err
}

// awaitAnswer waits for an answer, at most as long as the team permits a request to be open.
func (s *sessionRun) awaitAnswer(ctx workflow.Context, a *assignment, r *request) error {
	waiting, cancel := workflow.WithCancel(ctx)
	defer cancel()
	timer := workflow.NewTimerWithOptions(waiting, s.timeLeft(ctx, r), workflow.TimerOptions{
		// The timeline is the first that a person sees of a session in the Web UI.
		Summary: textfmt.Shorten(fmt.Sprintf("HELP NEEDED: %s waits for a person. See the tab User Metadata", a.AssignmentID), 200),
	})
	funded := never(ctx)
	if r.funded != nil {
		funded = r.funded(waiting)
	}
	obsolete := func() bool { return r.obsolete != nil && r.obsolete() }
	err := workflow.Await(ctx, func() bool {
		return r.Answer != nil || obsolete() || s.ending.stopping() || timer.IsReady() || funded.IsReady()
	})
	switch {
	case err != nil:
		return err
	case s.ending.stopping():
		return errStopped
	case r.Answer != nil || obsolete():
		return nil
	case funded.IsReady():
		return funded.Get(ctx, nil)
	}
	s.failOn(ctx, a, r, fmt.Sprintf("no answer within %s", s.Team.Help.GiveUpAfter))
	return errStopped
}

// timeLeft returns how long the team permits a request to be open from now on.
func (s *sessionRun) timeLeft(ctx workflow.Context, r *request) time.Duration {
	if r.Until.IsZero() {
		return s.Team.Help.GiveUpAfter.Std()
	}
	return max(r.Until.Sub(workflow.Now(ctx)), 0)
}

// continueAfter closes a request. An abort ends the session; otherwise the assignment continues with
// the answer, if there is one.
func (s *sessionRun) continueAfter(ctx workflow.Context, a *assignment, r *request) error {
	if r.Answer != nil && r.Answer.Action == session.AnswerAbort {
		return s.abort(ctx, a, r)
	}
	s.removeRequest(r)
	state := session.Running
	if r.Answer != nil && r.Answer.Action == session.AnswerSkip && r.OwnWork {
		r.Answer.CountsAsDone, state = true, session.Skipped
	}
	if err := s.saveWait(ctx, a, state, r.Answer); err != nil {
		return err
	}
	r.applied = true
	s.notify(ctx, session.RequestClosed, &r.Request, r.Answer)
	return nil
}

// failOn fails the session because of a request.
func (s *sessionRun) failOn(ctx workflow.Context, a *assignment, r *request, why string) {
	s.ending.fail(r, why)
	s.setAssignment(ctx, a, session.Failed)
	s.setPhase(a.Phase, session.Failed)
}

// abort ends the session on a person's answer, and stores the answer.
func (s *sessionRun) abort(ctx workflow.Context, a *assignment, r *request) error {
	why := "aborted by " + r.Answer.By
	if r.Answer.Note != "" {
		why += ": " + r.Answer.Note
	}
	r.applied = true
	s.failOn(ctx, a, r, why)
	if err := s.saveStatus(ctx, r.Answer); err != nil {
		return err
	}
	return errStopped
}

// saveWait publishes and stores that an assignment waits for a person, or continues; with
// the person's answer if there is one.
func (s *sessionRun) saveWait(ctx workflow.Context, a *assignment, state session.State, answer *session.Answer) error {
	s.setAssignment(ctx, a, state)
	s.publishNow(ctx)
	return s.saveStatus(ctx, answer)
}

// applyAnswer applies a person's answer to an assignment. done: it counts as done, without work.
func (s *sessionRun) applyAnswer(ctx workflow.Context, a *assignment, answer session.Answer) (done bool) {
	a.Supplied, a.SuppliedBy, a.SuppliedWhole, a.nextStep = "", "", false, nextStep{}
	switch answer.Action {
	case session.AnswerSupply:
		a.Supplied, a.SuppliedBy, a.SuppliedWhole = answer.Files, answer.By, answer.Whole
	case session.AnswerSkip:
		a.skip(s.EmptyDelta)
		s.setAssignment(ctx, a, a.Status)
		return true
	default:
		a.again(answer.Note)
	}
	return false
}

// setTicket sets the ticket of a request.
func (s *sessionRun) setTicket(ctx workflow.Context, news TicketNews) {
	r := s.findRequest(news.Request)
	if r == nil || r.Ticket != nil && *r.Ticket == news.Ticket {
		return
	}
	r.Ticket = &news.Ticket
	s.showRequests()
	s.showPage(ctx)
	err := s.saveStatus(ctx, nil)
	if err == nil && s.isEndStored() {
		err = errors.New("the session has ended")
	}
	if err != nil {
		workflow.GetLogger(ctx).Warn("a ticket could not be recorded in the store", "ticket", news.Ticket.Key, "error", err)
	}
}
