package workflows

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// requests opens, answers, withdraws and expires the session's requests to people. Assignments
// wait here for answers.
type requests struct {
	team        *spec.Team
	status      *session.Status
	schedule    *schedule
	ending      *ending
	advice      *advice
	publisher   *publisher
	notifier    *notifier
	checkpoints *checkpoints
	// open are those in the status, oldest first; opened counts all, by what they are about.
	open   []*request
	opened map[string]int
}

// register registers the handlers of answers to requests: an update, which returns a result,
// and a signal, which works without a running worker.
func (rs *requests) register(ctx workflow.Context, all *signals) error {
	onSignal(ctx, all, ResolveUpdate, rs.publisher.admitted, func(ctx workflow.Context, a session.Answer) {
		if err := rs.validate(a); err != nil {
			workflow.GetLogger(ctx).Warn("ignoring a signal with an answer", "error", err)
			return
		}
		rs.accept(ctx, a)
	})
	return onUpdate(ctx, ResolveUpdate,
		func(ctx workflow.Context, a session.Answer) (session.Answer, error) {
			r, taken := rs.accept(ctx, a)
			return *taken, rs.awaitStored(ctx, r, taken)
		},
		workflow.UpdateHandlerOptions{
			Validator: rs.validate,
			Description: `Answers an open request of a session. Copy the answer from the tab User Metadata, Current Details: ` +
				`{"request": "design.architect.1", "action": "retry", "note": "what to do differently", "by": "your name"}. ` +
				`For help, the action is retry, skip or abort; for an approval, approve or reject.`,
		})
}

// awaitStored waits until an accepted answer is in a checkpoint, or the next run applies it. It
// returns an error for an answer that has no effect any more.
func (rs *requests) awaitStored(ctx workflow.Context, r *request, taken *session.Answer) error {
	stored := func() bool { return taken.Left > 0 && !r.hasUnsaved(*taken) }
	patient, _ := workflow.NewDisconnectedContext(ctx) // the update also returns in a cancelled session
	if err := workflow.Await(patient, func() bool { return r.closed || stored() || rs.ending.handsOver() }); err != nil {
		return err
	}
	if r.closed && !r.applied && !stored() {
		return notAwaited("request %s was withdrawn before its answer was applied: the session ends, or phase %s is done again", r.ID, r.Phase)
	}
	return nil
}

// registerApproval registers the handlers that approve a phase by its name, the short form of
// an answer to its request.
func (rs *requests) registerApproval(ctx workflow.Context, all *signals) error {
	onSignal(ctx, all, ApprovePhaseUpdate, rs.publisher.admitted, func(ctx workflow.Context, approval ApprovePhase) {
		if err := rs.validateApproval(approval); err != nil {
			workflow.GetLogger(ctx).Warn("a signal to approve a phase is ignored", "error", err)
			return
		}
		rs.approve(ctx, approval)
	})
	return workflow.SetUpdateHandlerWithOptions(ctx, ApprovePhaseUpdate,
		func(ctx workflow.Context, approval ApprovePhase) error {
			r, taken := rs.approve(ctx, approval)
			return rs.awaitStored(ctx, r, taken)
		},
		workflow.UpdateHandlerOptions{
			Validator:   rs.validateApproval,
			Description: `Approves a phase, like resolve with the action approve. The argument names the phase: {"phase": "design", "by": "your name"}`,
		})
}

func (rs *requests) approve(ctx workflow.Context, approval ApprovePhase) (*request, *session.Answer) {
	return rs.accept(ctx, session.Answer{Request: rs.schedule.approval(approval.Phase).ID, Action: session.AnswerApprove, By: approval.By, Note: approval.Note})
}

// validateApproval refuses the approval of a phase that does not wait for one.
func (rs *requests) validateApproval(approval ApprovePhase) error {
	if !rs.publisher.admitted() {
		return notAwaited(notAdmittedYet)
	}
	if r := rs.schedule.approval(approval.Phase); rs.awaits(r) {
		return r.checkAnswer(session.Answer{Request: r.ID, Action: session.AnswerApprove, By: approval.By, Note: approval.Note}, rs.status.Session)
	}
	waiting := "no phase waits for approval"
	for _, p := range rs.schedule.phases {
		if rs.awaits(p.approval) {
			waiting = "phase " + p.Name + " does"
		}
	}
	return notAwaited("phase %q does not wait for approval: %s", approval.Phase, waiting)
}

// validate refuses an answer without an open request, or an empty one.
func (rs *requests) validate(a session.Answer) error {
	r := rs.find(a.Request)
	switch {
	case !rs.publisher.admitted():
		return notAwaited(notAdmittedYet)
	case a == (session.Answer{}):
		return notAwaited("the answer is empty; %s. If a form of the Web UI is opened a second time, it sends nothing: reload the page and paste the answer", rs.waitsFor())
	case r == nil:
		return notAwaited("request %q is not open; %s", textfmt.Shorten(a.Request, 200), rs.waitsFor())
	case r.answer != nil:
		return notAwaited("request %s is already answered: %s, by %s", r.ID, r.answer.Action, r.answer.By)
	case !rs.awaits(r):
		return notAwaited("request %s is closed: the session is ending", r.ID)
	}
	return r.checkAnswer(a, rs.status.Session)
}

// accept stores an answer in its request. The waiting work continues, unless more approvals are needed.
func (rs *requests) accept(ctx workflow.Context, a session.Answer) (*request, *session.Answer) {
	r := rs.find(a.Request)
	a.Phase, a.Persona, a.Since, a.At = r.Phase, r.Persona, r.Since, workflow.Now(ctx).UTC()
	if a.By == "" {
		a.By = "an unnamed person"
	}
	if r.Quorum != nil && a.Action == session.AnswerApprove {
		r.Quorum = r.Quorum.With(a)
		r.Message, a.Left = rs.approvalMessage(r), r.Quorum.Left()
		rs.updateStatus()
		if a.Left > 0 {
			r.unsaved = append(r.unsaved, a)
			return r, &a
		}
	}
	r.answer = &a
	return r, &a
}

// find returns the open request of an id; nil: there is none.
func (rs *requests) find(id string) *request {
	i := slices.IndexFunc(rs.open, func(r *request) bool { return r.ID == id })
	if i < 0 {
		return nil
	}
	return rs.open[i]
}

// awaits reports whether an answer to a request would still be applied.
func (rs *requests) awaits(r *request) bool {
	return r != nil && r.answer == nil && !r.closed && !rs.ending.failed()
}

// waitsFor returns a sentence on the open requests.
func (rs *requests) waitsFor() string {
	var open []string
	for _, r := range rs.open {
		if rs.awaits(r) {
			open = append(open, fmt.Sprintf("%s (%s)", r.ID, actionList(r.Actions)))
		}
	}
	if len(open) == 0 {
		return "no request is open"
	}
	return "open requests: " + strings.Join(open, ", ")
}

// add opens a request, which shows in the status, or takes up the same one of an earlier run.
func (rs *requests) add(ctx workflow.Context, r *request) *request {
	if open := rs.continued(r.Kind, r.Phase, r.Persona); open != nil {
		open.continued, open.obsolete, open.ownWork = false, r.obsolete, r.ownWork
		return open
	}
	who := r.Persona
	if r.Kind.OfPhase() {
		who = string(r.Kind)
	}
	base := r.Phase + "." + who
	rs.opened[base]++
	r.ID = fmt.Sprintf("%s.%d%s", base, rs.opened[base], requestSuffix(workflow.GetInfo(ctx), rs.status.Run))
	r.Since = workflow.Now(ctx).UTC()
	if r.Attempts == nil {
		r.Attempts = []session.AttemptFailure{}
	}
	if limit := rs.team.Help.GiveUpAfter.Std(); limit > 0 && !r.Kind.OfPhase() {
		r.Until = r.Since.Add(limit)
	}
	r.Command = rs.advice.command(r, len(rs.budgets()) > 1)
	r.Advice = rs.advice.howToAnswer(r)
	rs.open = append(rs.open, r)
	rs.updateStatus()
	rs.publisher.alerts.watch(ctx, r)
	return r
}

// continued finds a request of an earlier run that nothing waits for yet; nil: there is
// none.
func (rs *requests) continued(kind session.RequestKind, phase, persona string) *request {
	i := slices.IndexFunc(rs.open, func(r *request) bool {
		return r.continued && r.Kind == kind && r.Phase == phase && r.Persona == persona
	})
	if i < 0 {
		return nil
	}
	return rs.open[i]
}

// continuedStop is why an assignment waited for a budget in an earlier run; false: it did not,
// or has been asked about since.
func (rs *requests) continuedStop(a *assignment) (activities.BudgetStop, bool) {
	if r := rs.continued(session.ForBudget, a.Phase, a.Persona); r != nil {
		return *r.stop, true
	}
	return activities.BudgetStop{}, false
}

// budgets are the requests for budgets that the session waits for, one for each budget.
func (rs *requests) budgets() []*request {
	byScope := map[string]*request{}
	for _, r := range rs.open {
		if r.stop != nil && r.stop.Scope != "" && !r.closed {
			byScope[r.stop.Scope] = r
		}
	}
	var all []*request
	for _, scope := range workflow.DeterministicKeys(byScope) {
		all = append(all, byScope[scope])
	}
	return all
}

// updateStatus sets the open requests in the status.
func (rs *requests) updateStatus() {
	rs.status.Help = []session.Request{}
	for _, r := range rs.open {
		rs.status.Help = append(rs.status.Help, r.Request)
	}
}

// pages returns the pages of the open requests in the Web UI.
func (rs *requests) pages() []string {
	var lines []string
	for _, r := range rs.open {
		lines = append(lines, rs.advice.requestPage(r)...)
	}
	return lines
}

// remove takes a request out of the status.
func (rs *requests) remove(r *request) {
	rs.open = slices.DeleteFunc(rs.open, func(other *request) bool { return other == r })
	rs.updateStatus()
}

// withdraw removes a request that needs no answer any more.
func (rs *requests) withdraw(ctx workflow.Context, r *request) {
	r.closed = true
	rs.remove(r)
	if r.notified {
		rs.notifier.notify(ctx, session.WentOn, &r.Request, nil)
	}
}

// withdrawAll removes all requests for which needless returns true.
func (rs *requests) withdrawAll(ctx workflow.Context, needless func(*request) bool) {
	for _, r := range slices.Clone(rs.open) {
		if needless(r) {
			rs.withdraw(ctx, r)
		}
	}
}

// close ends all waits for answers: the session ends.
func (rs *requests) close() {
	for _, r := range rs.open {
		r.closed = true
	}
}

// ask makes an assignment wait until a person has answered, or until an answer is not needed
// any more: then it returns nil. Work that does not depend on the assignment continues
// meanwhile. errSessionEnds means that no answer came in time, that a person has aborted the
// session, that other work has failed for good, or that the next run waits for the answer.
func (rs *requests) ask(ctx workflow.Context, a *assignment, r *request) (_ *session.Answer, err error) {
	defer func() { r.closed = !rs.ending.handsOver() || !errors.Is(err, errSessionEnds) }()
	if r.notified { // by an earlier run
		rs.publisher.update(ctx, a, session.HelpIsNeeded)
		rs.publisher.announce(ctx)
	} else if err := rs.save(ctx, a, session.HelpIsNeeded, nil); err != nil {
		return nil, rs.interrupted(ctx, r, err)
	}
	if !r.notified && !rs.ending.failed() {
		r.notified = true
		rs.notifier.notify(ctx, session.HelpAsked, &r.Request, nil)
	}
	if err := rs.await(ctx, a, r); err != nil {
		return nil, rs.interrupted(ctx, r, err)
	}
	return r.answer, rs.resume(ctx, a, r)
}

// interrupted withdraws a request whose phase is repeated. It keeps the request of a session
// that ends: the end of the session reports it.
func (rs *requests) interrupted(ctx workflow.Context, r *request, err error) error {
	if temporal.IsCanceledError(err) && rs.schedule.recalled(r.Phase) {
		rs.withdraw(ctx, r)
	}
	return err
}

// await waits for an answer, at most as long as the team permits a request to be open.
func (rs *requests) await(ctx workflow.Context, a *assignment, r *request) error {
	waiting, cancel := workflow.WithCancel(ctx)
	defer cancel()
	timer := workflow.NewTimerWithOptions(waiting, rs.timeLeft(ctx, r), workflow.TimerOptions{
		// The timeline is the first that a person sees of a session in the Web UI.
		Summary: textfmt.Shorten(fmt.Sprintf("HELP NEEDED: %s waits for a person. See the tab User Metadata", a.AssignmentID), 200),
	})
	funded := never(ctx)
	if r.funded != nil {
		funded = r.funded(waiting)
	}
	obsolete := func() bool { return r.obsolete != nil && r.obsolete() }
	err := workflow.Await(ctx, func() bool {
		return r.answer != nil || obsolete() || rs.ending.stopping() || timer.IsReady() || funded.IsReady()
	})
	switch {
	case err != nil:
		return err
	case rs.ending.stopping():
		return errSessionEnds
	case r.answer != nil || obsolete():
		return nil
	case funded.IsReady():
		return funded.Get(ctx, nil)
	}
	rs.end(ctx, a, r, fmt.Sprintf("no answer within %s", rs.team.Help.GiveUpAfter))
	return errSessionEnds
}

// timeLeft returns how long the team permits a request to be open from now on.
func (rs *requests) timeLeft(ctx workflow.Context, r *request) time.Duration {
	if r.Until.IsZero() {
		return rs.team.Help.GiveUpAfter.Std()
	}
	return max(r.Until.Sub(workflow.Now(ctx)), 0)
}

// resume closes a request. An abort ends the session; otherwise the assignment continues with
// the answer, if there is one.
func (rs *requests) resume(ctx workflow.Context, a *assignment, r *request) error {
	if r.answer != nil && r.answer.Action == session.AnswerAbort {
		return rs.abort(ctx, a, r)
	}
	rs.remove(r)
	state := session.Running
	if r.answer != nil && r.answer.Action == session.AnswerSkip && r.ownWork {
		r.answer.CountsAsDone, state = true, session.Skipped
	}
	if err := rs.save(ctx, a, state, r.answer); err != nil {
		return err
	}
	r.applied = true
	rs.notifier.notify(ctx, session.WentOn, &r.Request, r.answer)
	return nil
}

// end fails the session because of a request.
func (rs *requests) end(ctx workflow.Context, a *assignment, r *request, why string) {
	rs.ending.fail(r, why)
	rs.publisher.update(ctx, a, session.Failed)
	rs.publisher.setPhase(a.Phase, session.Failed)
}

// abort ends the session on a person's answer, and stores the answer.
func (rs *requests) abort(ctx workflow.Context, a *assignment, r *request) error {
	why := "aborted by " + r.answer.By
	if r.answer.Note != "" {
		why += ": " + r.answer.Note
	}
	r.applied = true
	rs.end(ctx, a, r, why)
	if err := rs.checkpoints.mark(ctx, r.answer); err != nil {
		return err
	}
	return errSessionEnds
}

// save publishes and stores that an assignment waits for a person, or continues; with
// the person's answer if there is one.
func (rs *requests) save(ctx workflow.Context, a *assignment, state session.State, answer *session.Answer) error {
	rs.publisher.update(ctx, a, state)
	rs.publisher.announce(ctx)
	return rs.checkpoints.mark(ctx, answer)
}

// outcome is the result of a request for help.
type outcome int

// The outcomes.
const (
	// outcomeEnded: the session ends, or the phase is done again.
	outcomeEnded outcome = iota
	// outcomeRetry: it has new rounds, or a person's files to look at.
	outcomeRetry
	// outcomeDone: it counts as done, without work.
	outcomeDone
)

// askForHelp opens a request for help with an assignment that has failed for good. If the
// team has `help.mode: fail`, the session ends.
func (rs *requests) askForHelp(ctx workflow.Context, a *assignment, f failures.Failure, attempts []session.AttemptFailure) (outcome, error) {
	h := session.Request{
		Kind: session.ForHelp, Phase: a.Phase, Persona: a.Persona, Category: f.Category, Message: f.Message, Suggestion: f.Remedy(),
		Attempts: append([]session.AttemptFailure{}, attempts...), Usage: a.Usage, SkipEffect: a.skipEffect(),
	}
	if a.Integrating && f.Category == failures.ContractViolation {
		h.Suggestion = fmt.Sprintf("Retry has %s work on the merged files again, with your note; supply the merged files yourself; "+
			"or skip to keep them as they are: of a conflict the version of the last one named.", a.AssignmentID)
	}
	if err := ctx.Err(); err != nil { // the phase is done again, or the session is cancelled
		return outcomeEnded, err
	}
	if rs.team.Help.Mode != spec.HelpAsk || rs.ending.failed() {
		rs.failAtOnce(ctx, h)
		return outcomeEnded, nil
	}
	h.Actions = session.ForHelp.Rule().Actions
	answer, err := rs.ask(ctx, a, rs.add(ctx, &request{Request: h, ownWork: a.ownWork()}))
	if err != nil {
		return outcomeEnded, ignoreSessionEnd(err)
	}
	return rs.apply(ctx, a, *answer), nil
}

// failAtOnce fails the session without waiting for a person: because its team has
// `help.mode: fail`, or because it already ends.
func (rs *requests) failAtOnce(ctx workflow.Context, h session.Request) {
	r := rs.add(ctx, &request{Request: h})
	r.Until = time.Time{} // nothing is left to answer
	rs.updateStatus()
	rs.publisher.setPhase(h.Phase, session.Failed)
	rs.ending.failing = true
	if rs.ending.request == nil {
		rs.ending.request = r
	}
}

// apply applies a person's answer to an assignment.
func (rs *requests) apply(ctx workflow.Context, a *assignment, answer session.Answer) outcome {
	a.Supplied, a.SuppliedBy, a.SuppliedWhole, a.nextStep = "", "", false, nextStep{}
	switch answer.Action {
	case session.AnswerSupply:
		a.Supplied, a.SuppliedBy, a.SuppliedWhole = answer.Files, answer.By, answer.Whole
		return outcomeRetry
	case session.AnswerSkip:
		a.skip(rs.checkpoints.empty)
		rs.publisher.update(ctx, a, a.Status)
		return outcomeDone
	default:
		a.again(answer.Note)
		return outcomeRetry
	}
}

// setTicket sets the ticket of a request.
func (rs *requests) setTicket(ctx workflow.Context, news TicketNews) {
	r := rs.find(news.Request)
	if r == nil || r.Ticket != nil && *r.Ticket == news.Ticket {
		return
	}
	r.Ticket = &news.Ticket
	rs.updateStatus()
	rs.publisher.show(ctx)
	err := rs.checkpoints.mark(ctx, nil)
	if err == nil && rs.checkpoints.ended() {
		err = errors.New("the session has ended")
	}
	if err != nil {
		workflow.GetLogger(ctx).Warn("a ticket could not be recorded in the store", "ticket", news.Ticket.Key, "error", err)
	}
}
