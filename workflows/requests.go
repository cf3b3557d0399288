package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// request is a question to a person, of any kind:
//
//	answer  applied  closed  the request
//	-       -        -       is open
//	-       -        yes     was withdrawn or has expired, or the session ends
//	set     -        -       is answered, and what waits for it continues
//	set     yes      any     is done: the session has done as the answer says
//	set     -        yes     is answered, but not applied: the session ends, or the phase is repeated
//
// A session that continues as new passes the first and the third kind to the next run. The coroutines that meet here:
//
//	set by                                        awaited by
//	answer   acceptAnswer, in the update          awaitAnswer (help.go), awaitDecision: the phase's coroutine
//	applied  awaitApproval, help.go, rework.go    read by awaitApplied, when closed is set
//	closed   whoever has waited, or a withdrawal  awaitApplied: the update, whose caller waits for it
//
// The next phase starts when awaitApproval clears savingDecision of its phase: runPhases waits for that, through ready.
type request struct {
	session.Request
	// Stop is the exceeded budget; nil if the request is not about a budget.
	Stop *activities.BudgetStop `json:"stop,omitempty"`
	// Files is a short list of the files of a phase that waits for approval.
	Files string `json:"files,omitempty"`
	// OwnWork: it is about the assignment's own work, and not about how that fits
	// together with others'.
	OwnWork bool `json:"own_work,omitempty"`
	// RaisesBefore is how many raises of budgets there had been when it was opened.
	RaisesBefore int `json:"raises_before,omitempty"`
	// Unsaved are approvals after which others are needed, and that are not stored yet.
	Unsaved []session.Answer `json:"unsaved,omitempty"`
	// Answer is a person's answer; nil if there is none yet.
	Answer *session.Answer `json:"answer,omitempty"`
	// Notified: people outside were notified of the request. Alerted counts the alert rules about
	// waiting that it has reached.
	Notified bool `json:"notified,omitempty"`
	Alerted  int  `json:"alerted,omitempty"`

	// obsolete reports whether an answer is no longer needed; funded is ready when a budget may
	// permit calls again. Either may be nil.
	obsolete func() bool
	funded   func(ctx workflow.Context) workflow.Future
	// handedOver: an earlier run has opened it, and nothing in this one waits for it yet.
	handedOver bool
	// applied: the answer is applied, and the visible status shows it.
	applied bool
	// closed: no work waits for an answer any more.
	closed bool
}

// hasUnsaved reports whether the store does not have an approval yet.
func (r *request) hasUnsaved(a session.Answer) bool {
	return slices.ContainsFunc(r.Unsaved, func(b session.Answer) bool { return a.SamePerson(b) })
}

// answeredError is the error of a round that ends because a person has decided on the
// assignment.
type answeredError struct{ session.Answer }

func (a *answeredError) Error() string { return fmt.Sprintf("answered by %s: %s", a.By, a.Action) }

// notAdmittedYet is the message for updates before the session is admitted.
const notAdmittedYet = "the session is not admitted yet: it is still loading its team from the store; try again in a moment"

func notAwaited(format string, args ...any) error {
	return temporal.NewApplicationErrorWithOptions(fmt.Sprintf(format, args...), NotAwaited,
		temporal.ApplicationErrorOptions{NonRetryable: true})
}

func actionList(actions []session.Action) string {
	var words []string
	for _, a := range actions {
		words = append(words, string(a))
	}
	return strings.Join(words, ", ")
}

// requestSuffix is part of request ids. It prevents an answer to a request of one run,
// or of a run before a reset, from being applied to the same request of another.
func requestSuffix(info *workflow.Info, run int) string {
	suffix := ""
	if run > 1 {
		suffix = fmt.Sprintf("-%d", run)
	}
	if info.OriginalRunID != info.WorkflowExecution.RunID {
		suffix += "-" + info.WorkflowExecution.RunID[:min(8, len(info.WorkflowExecution.RunID))]
	}
	return suffix
}

// findRequest returns the open request of an id; nil if there is none.
func (s *sessionRun) findRequest(id string) *request {
	i := slices.IndexFunc(s.Requests, func(r *request) bool { return r.ID == id })
	if i < 0 {
		return nil
	}
	return s.Requests[i]
}

// openRequest opens a request, which shows in the status, or takes up the same one of an earlier run.
func (s *sessionRun) openRequest(ctx workflow.Context, r *request) *request {
	if open := s.findHandedOver(r.Kind, r.Phase, r.Persona); open != nil {
		open.handedOver, open.obsolete, open.OwnWork = false, r.obsolete, r.OwnWork
		return open
	}
	who := r.Persona
	if r.Kind.OfPhase() {
		who = string(r.Kind)
	}
	phase, _ := s.Team.Phase(r.Phase)
	r.Actions = answersOf(phase, r.Actions)
	base := r.Phase + "." + who
	s.opened[base]++
	r.ID = fmt.Sprintf("%s.%d%s", base, s.opened[base], requestSuffix(workflow.GetInfo(ctx), s.Status.Run))
	r.Since = workflow.Now(ctx).UTC()
	if r.Attempts == nil {
		r.Attempts = []session.AttemptFailure{}
	}
	if limit := s.Team.Help.GiveUpAfter.Std(); limit > 0 && !r.Kind.OfPhase() {
		r.Until = r.Since.Add(limit)
	}
	r.Command = s.command(r, len(s.budgetRequests()) > 1)
	s.Requests = append(s.Requests, r)
	s.showRequests()
	s.watchRequest(ctx, r)
	return r
}

// answersOf are those of some answers that a request about a phase takes: a delivery has no files of its own.
func answersOf(p spec.Phase, actions []session.Action) []session.Action {
	if p.Deliver == nil {
		return actions
	}
	return slices.DeleteFunc(slices.Clone(actions), func(a session.Action) bool { return a.Rule().NeedsFiles })
}

// findHandedOver finds a request of an earlier run that nothing waits for yet; nil if there is
// none.
func (s *sessionRun) findHandedOver(kind session.RequestKind, phase, persona string) *request {
	i := slices.IndexFunc(s.Requests, func(r *request) bool {
		return r.handedOver && r.Kind == kind && r.Phase == phase && r.Persona == persona
	})
	if i < 0 {
		return nil
	}
	return s.Requests[i]
}

// showRequests sets the open requests in the status.
func (s *sessionRun) showRequests() {
	s.Status.Help = []session.Request{}
	for _, r := range s.Requests {
		s.Status.Help = append(s.Status.Help, r.Request)
	}
}

// removeRequest takes a request out of the status.
func (s *sessionRun) removeRequest(r *request) {
	s.Requests = slices.DeleteFunc(s.Requests, func(other *request) bool { return other == r })
	s.showRequests()
}

// withdrawRequest removes a request that needs no answer any more.
func (s *sessionRun) withdrawRequest(ctx workflow.Context, r *request) {
	r.closed = true
	s.removeRequest(r)
	if r.Notified {
		s.notify(ctx, session.RequestClosed, &r.Request, nil)
	}
}

// withdrawRequests removes all requests for which needless returns true.
func (s *sessionRun) withdrawRequests(ctx workflow.Context, needless func(*request) bool) {
	for _, r := range slices.Clone(s.Requests) {
		if needless(r) {
			s.withdrawRequest(ctx, r)
		}
	}
}

// closeRequests ends all waits for answers: the session ends.
func (s *sessionRun) closeRequests() {
	for _, r := range s.Requests {
		r.closed = true
	}
}

// registerAnswers registers the handlers of answers to requests: an update, which returns a result,
// and a signal, which works without a running worker.
func (s *sessionRun) registerAnswers(ctx workflow.Context) error {
	onSignal(ctx, &s.signals, ResolveUpdate, s.admitted, func(ctx workflow.Context, a session.Answer) {
		if err := s.validateAnswer(a); err != nil {
			workflow.GetLogger(ctx).Warn("ignoring a signal with an answer", "error", err)
			return
		}
		s.acceptAnswer(ctx, a)
	})
	return workflow.SetUpdateHandlerWithOptions(ctx, ResolveUpdate,
		func(ctx workflow.Context, a session.Answer) (session.Answer, error) {
			r, taken := s.acceptAnswer(ctx, a)
			return *taken, s.awaitApplied(ctx, r, taken)
		},
		workflow.UpdateHandlerOptions{
			Validator: s.validateAnswer,
			Description: `Answers an open request of a session. Copy the answer from the tab User Metadata, Current Details: ` +
				`{"request": "design.architect.1", "action": "retry", "note": "what to do differently", "by": "your name"}. ` +
				`For help, the action is retry, skip or abort; for an approval, approve or reject.`,
		})
}

// awaitApplied waits until an accepted answer is in a checkpoint, or the next run applies it. It
// returns an error for an answer that has no effect any more.
func (s *sessionRun) awaitApplied(ctx workflow.Context, r *request, taken *session.Answer) error {
	stored := func() bool { return taken.Left > 0 && !r.hasUnsaved(*taken) }
	disconnected, _ := workflow.NewDisconnectedContext(ctx) // the update also returns in a cancelled session
	if err := workflow.Await(disconnected, func() bool { return r.closed || stored() || s.ending.continuesAsNew() }); err != nil {
		return err
	}
	if r.closed && !r.applied && !stored() {
		return notAwaited("request %s was withdrawn before its answer was applied: the session ends, or phase %s is done again", r.ID,
			r.Phase)
	}
	return nil
}

// validateAnswer refuses an answer without an open request, or an empty one.
func (s *sessionRun) validateAnswer(a session.Answer) error {
	r := s.findRequest(a.Request)
	switch {
	case !s.admitted():
		return notAwaited(notAdmittedYet)
	case a == (session.Answer{}):
		return notAwaited("the answer is empty; %s. If a form of the Web UI is opened a second time, it sends nothing: reload the "+
			"page and paste the answer", s.openRequestsText())
	case r == nil:
		return notAwaited("request %q is not open; %s", textfmt.Shorten(a.Request, 200), s.openRequestsText())
	case r.Answer != nil:
		return notAwaited("request %s is already answered: %s, by %s", r.ID, r.Answer.Action, r.Answer.By)
	case !s.isAwaited(r):
		return notAwaited("request %s is closed: the session is ending", r.ID)
	}
	return r.checkAnswer(a, s.Status.Session)
}

// acceptAnswer stores an answer in its request. The waiting work continues, unless more approvals are needed.
func (s *sessionRun) acceptAnswer(ctx workflow.Context, a session.Answer) (*request, *session.Answer) {
	r := s.findRequest(a.Request)
	workflow.GetLogger(ctx).Info("answer accepted", "request", r.ID, "action", string(a.Action), "by", a.By)
	a.Phase, a.Persona, a.Since, a.At = r.Phase, r.Persona, r.Since, workflow.Now(ctx).UTC()
	if a.By == "" {
		a.By = "an unnamed person"
	}
	if r.Quorum != nil && a.Action == session.AnswerApprove {
		r.Quorum = r.Quorum.With(a)
		r.Message, a.Left = s.approvalMessage(r), r.Quorum.Left()
		s.showRequests()
		if a.Left > 0 {
			r.Unsaved = append(r.Unsaved, a)
			return r, &a
		}
	}
	r.Answer = &a
	return r, &a
}

// isAwaited reports whether an answer to a request would still be applied.
func (s *sessionRun) isAwaited(r *request) bool {
	return r != nil && r.Answer == nil && !r.closed && !s.ending.failed()
}

// openRequestsText returns a sentence on the open requests.
func (s *sessionRun) openRequestsText() string {
	var open []string
	for _, r := range s.Requests {
		if s.isAwaited(r) {
			open = append(open, fmt.Sprintf("%s (%s)", r.ID, actionList(r.Actions)))
		}
	}
	if len(open) == 0 {
		return "no request is open"
	}
	return "open requests: " + strings.Join(open, ", ")
}

// checkAnswer refuses an answer that the request does not accept. The answer is for this request.
func (r *request) checkAnswer(a session.Answer, sessionID string) error {
	switch {
	case !r.Takes(a.Action):
		return notAwaited("request %s cannot be answered with action %q; it takes %s", r.ID, textfmt.Shorten(string(a.Action), 40),
			actionList(r.Actions))
	case len(a.Note) > session.MaxNote:
		return notAwaited("the note has %d bytes; at most %d are allowed: put longer texts into a file and supply it", len(a.Note),
			session.MaxNote)
	case len(a.By) > session.MaxMessage:
		return notAwaited("by has %d bytes; at most %d are allowed", len(a.By), session.MaxMessage)
	case max(len(a.Person), len(a.PersonID), len(a.Group)) > session.MaxMessage:
		return notAwaited("person or group is longer than %d bytes", session.MaxMessage)
	case a.Action.LacksNote(a.Note):
		return notAwaited("a rejection needs a note: the personas get this text")
	case a.Action.Rule().NeedsFiles && !a.Files.Valid():
		return notAwaited("files: missing manifest; use `maestro resolve %s supply PATH`, which stores the files", sessionID)
	case r.Quorum != nil:
		if why := r.Quorum.Refuses(a); why != "" {
			return notAwaited("request %s: %s", r.ID, why)
		}
	}
	return nil
}

// openApproval opens the request for the approval of a phase that is done.
func (s *sessionRun) openApproval(ctx workflow.Context, p *phase) *request {
	var used cost.Usage
	for _, persona := range p.Personas {
		used = used.Add(s.Status.Assignment(spec.AssignmentID{Phase: p.Name, Persona: persona}).Usage)
	}
	r := &request{Request: session.Request{
		Kind: session.ForApproval, Phase: p.Name, Usage: used, Actions: session.ForApproval.Rule().Actions,
		Quorum: session.NewQuorum(p.Approve, s.Status.StartedBy, s.Status.StartedByID, p.Approvals),
	}}
	r.Message = s.approvalMessage(r)
	return s.openRequest(ctx, r)
}

// approvalMessage returns the message of a request for approval. It says what the phase's merge
// has dropped.
func (s *sessionRun) approvalMessage(r *request) string {
	text := fmt.Sprintf("phase %s is done and waits for approval", r.Phase)
	if r.Quorum != nil {
		text = r.Quorum.String()
	}
	for _, a := range s.phaseStatus(r.Phase).Assignments {
		for _, dropped := range a.Dropped {
			text += "; " + dropped
		}
	}
	return textfmt.Shorten(text, 4*session.MaxMessage)
}

// reopenApproval opens the request for a phase that was done in an earlier run, unless it is
// open still, and waits for the answer.
func (s *sessionRun) reopenApproval(ctx workflow.Context, p *phase) error {
	p.Unapproved = false
	if p.approval == nil {
		p.approval = s.openApproval(ctx, p)
		refresh(&s.Status)
		if err := s.saveStatus(ctx, nil); err != nil {
			return err
		}
	}
	return s.awaitApproval(ctx, p)
}

// awaitApproval waits after a recorded phase until it is approved, if it needs an approval.
// Phases that do not depend on it continue meanwhile. A rejection makes the phase repeat its
// work.
func (s *sessionRun) awaitApproval(ctx workflow.Context, p *phase) error {
	r := p.approval
	if r == nil {
		return nil
	}
	done := s.phaseStatus(p.Name).Status
	switch {
	case done != session.AwaitingApproval:
	case r.Notified: // by an earlier run
		done = s.phaseStatus(p.Name).Done(session.Completed)
	default: // since an earlier run
		done = session.Restored
	}
	s.setPhase(p.Name, session.AwaitingApproval)
	s.publishNow(ctx)
	if !r.Notified {
		r.Notified = true
		s.notify(ctx, session.ApprovalAsked, &r.Request, nil)
	}
	err := s.awaitDecision(ctx, r)
	if err == nil && s.ending.continuesAsNew() {
		return errStopped // the next run waits for the answer
	}
	defer func() { r.closed = true }()
	if err != nil || s.ending.stopping() {
		return cmp.Or(err, errStopped) // the session ends, or the phase is done again
	}
	p.savingDecision = true
	defer func() { p.savingDecision = false }()
	if r.Answer.Action == session.AnswerReject {
		return s.reject(ctx, p, r)
	}
	p.approval = nil
	s.removeRequest(r)
	s.setPhase(p.Name, done)
	s.publishNow(ctx)
	if err := s.saveStatus(ctx, r.Answer); err != nil {
		p.approval = r // the approval is not stored
		return err
	}
	r.applied = true
	s.notify(ctx, session.RequestClosed, &r.Request, r.Answer)
	return nil
}

// awaitDecision waits until [sessionRun.acceptAnswer] has set the answer of the request, because a phase is rejected or
// approved by enough persons, or until the session ends. It stores each approval after which others are still needed.
func (s *sessionRun) awaitDecision(ctx workflow.Context, r *request) error {
	for {
		err := workflow.Await(ctx, func() bool { return r.Answer != nil || len(r.Unsaved) > 0 || s.ending.stopping() })
		if err != nil || s.ending.stopping() || len(r.Unsaved) == 0 {
			return err
		}
		s.publishNow(ctx)
		if err := s.saveStatus(ctx, &r.Unsaved[0]); err != nil {
			return err
		}
		r.Unsaved = r.Unsaved[1:]
	}
}
