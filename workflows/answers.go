package workflows

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

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
			return *taken, s.awaitStored(ctx, r, taken)
		},
		workflow.UpdateHandlerOptions{
			Validator: s.validateAnswer,
			Description: `Answers an open request of a session. Copy the answer from the tab User Metadata, Current Details: ` +
				`{"request": "design.architect.1", "action": "retry", "note": "what to do differently", "by": "your name"}. ` +
				`For help, the action is retry, skip or abort; for an approval, approve or reject.`,
		})
}

// awaitStored waits until an accepted answer is in a checkpoint, or the next run applies it. It
// returns an error for an answer that has no effect any more.
func (s *sessionRun) awaitStored(ctx workflow.Context, r *request, taken *session.Answer) error {
	stored := func() bool { return taken.Left > 0 && !r.hasUnsaved(*taken) }
	disconnected, _ := workflow.NewDisconnectedContext(ctx) // the update also returns in a cancelled session
	if err := workflow.Await(disconnected, func() bool { return r.closed || stored() || s.ending.handsOver() }); err != nil {
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
