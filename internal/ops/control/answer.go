package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/retryafter"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/workflows"
)

// OpenRequests is what a session waits for.
type OpenRequests struct {
	Session  string            `json:"session"`
	Requests []session.Request `json:"requests"`
}

// Open lists the open requests of a running session. Errors are as of [Requests.Answer].
func (r Requests) Open(ctx context.Context, sessionID string) (OpenRequests, error) {
	doc := OpenRequests{Session: sessionID, Requests: []session.Request{}}
	w, err := r.reader(sessionID)
	if err != nil {
		return doc, err
	}
	if err := r.may(ctx, access.View, sessionID); err != nil {
		return doc, err
	}
	if _, err := r.describeRunning(ctx, w); err != nil {
		return doc, err
	}
	open, err := w.Requests(ctx)
	doc.Requests = append(doc.Requests, open...)
	return doc, err
}

// AnswerInput is an answer to a request. Who answers is who calls.
type AnswerInput struct {
	Session string `path:"session" maxLength:"200"`
	Request string `path:"request" maxLength:"300" doc:"the request's id"`
	Body    AnswerBody
}

// AnswerBody is how a request is answered.
type AnswerBody struct {
	Action session.Action `json:"action" enum:"retry,skip,supply,abort,approve,reject" doc:"one of the request's actions"`
	Note   string         `json:"note,omitempty" maxLength:"4096" doc:"the reason, for the agents that work next"`
	Files  spec.Digest    `json:"files,omitempty" doc:"the manifest of supplied files"`
	// By is the name that a person gives at a command line, and Whole is as in [session.Answer].
	By    string `json:"-"`
	Whole bool   `json:"-"`
}

// Answered is the document of an answer.
type Answered struct {
	Session string              `json:"session"`
	Kind    session.RequestKind `json:"kind,omitempty"`
	// Answer is the answer; after it was accepted, in the form in which the session recorded it.
	Answer session.Answer `json:"answer"`
	// Taken: the session has accepted it. Otherwise no worker has answered yet: a worker accepts
	// it, or rejects it as stale, when one is available.
	Taken bool `json:"taken"`
}

// ForSession is the answer as a session takes it.
func (in AnswerInput) ForSession() session.Answer {
	return session.Answer{
		Request: in.Request, Action: in.Body.Action, Note: in.Body.Note, Files: in.Body.Files,
		Whole: in.Body.Whole, By: in.Body.By,
	}
}

// PermissionToAnswer is what an answer needs: one about a finished phase, or one about work that is stuck.
func PermissionToAnswer(ofPhase bool) access.Permission {
	if ofPhase {
		return access.Approve
	}
	return access.Operate
}

// Answer answers an open request, and waits until the session has accepted the answer. Errors of
// kind [Conflict] have the reason [Lost] or [Ended], or name who has answered before.
func (r Requests) Answer(ctx context.Context, in AnswerInput) (Answered, error) {
	answer := in.ForSession()
	answer.By = cmp.Or(answer.By, actor(ctx))
	doc := Answered{Session: in.Session, Answer: answer}
	if err := checkAnswer(answer); err != nil {
		return doc, err
	}
	w, err := r.reader(in.Session)
	if err != nil {
		return doc, err
	}
	event := access.Event{Action: "request." + string(answer.Action), Subject: answer.Request, Detail: answer.Note}
	err = r.change(ctx, PermissionToAnswer(answer.Action.OfPhase()), in.Session, event, func(ctx context.Context) error {
		if _, err := r.describeRunning(ctx, w); err != nil {
			return err
		}
		q, err := r.verifyApprover(ctx, w, &doc.Answer)
		if err != nil {
			return err
		}
		if answer.Files != "" {
			if err := r.checkFiles(ctx, r.teamName(ctx, in.Session), "files", answer.Files); err != nil {
				return err
			}
		}
		var taken session.Answer
		if doc.Taken, err = sendAnswer(ctx, w.Conn, in.Session, doc.Answer, q, &taken); doc.Taken {
			doc.Answer = taken
		}
		return err
	})
	return doc, err
}

// sendAnswer sends an answer to a request with a quorum, if it has one. taken is the answer as the session has recorded it;
// accepted is false if a worker reads it later.
func sendAnswer(ctx context.Context, conn *temporalutil.Connection, sessionID string, answer session.Answer, q *session.Quorum,
	taken any,
) (accepted bool, err error) {
	m := message{update: workflows.ResolveUpdate, argument: answer}
	if accepted, err = send(ctx, conn, sessionID, m, taken); accepted || err != nil {
		return accepted && err == nil, err
	}
	if again, err := checkUnread(ctx, conn, sessionID, answer, q); again || err != nil {
		return false, err
	}
	return false, m.signal(ctx, conn, sessionID)
}

// checkAnswer rejects an answer that no request can have.
func checkAnswer(a session.Answer) error {
	switch {
	case a.Request == "":
		return invalidf("request", "missing; name the request to answer")
	case a.Action.Rule() == (session.ActionRule{}):
		return invalidf("action", "unknown action %q", textfmt.Shorten(string(a.Action), 40))
	case a.Action.LacksNote(a.Note):
		return invalidf("note", "missing; describe what is wrong: the personas get this text")
	case a.Action.Rule().NeedsFiles && a.Files == "":
		return invalidf("files", "missing; %s takes files", a.Action)
	}
	return CheckNote(a.Note)
}

// CheckNote rejects a note that is too large or not text.
func CheckNote(note string) error {
	switch {
	case len(note) > session.MaxNote:
		return invalidf("note", "longer than %s; put longer texts into a file and supply it", textfmt.Size(session.MaxNote))
	case !utf8.ValidString(note) || strings.ContainsRune(note, 0):
		return invalidf("note", "not valid UTF-8")
	}
	return nil
}

// verifyApprover adds the sender's person and group to an answer to a request with a quorum. It rejects a
// program, which is no person, and a sender who is not a member of a group that the request needs. The session counts the
// persons. It returns the quorum; nil: the request has none, or is not open.
func (r Requests) verifyApprover(ctx context.Context, w *sessionstatus.Reader, answer *session.Answer) (*session.Quorum, error) {
	answer.Person, answer.PersonID, answer.Group = "", "", ""
	if !answer.Action.OfPhase() {
		return nil, nil
	}
	who, _ := access.Of(ctx)
	open, err := w.Requests(ctx)
	if err != nil {
		return nil, r.asNotFound(ctx, w.Session, err)
	}
	i := slices.IndexFunc(open, func(h session.Request) bool { return h.ID == answer.Request })
	if i < 0 || open[i].Quorum == nil {
		return nil, nil
	}
	q := open[i].Quorum
	group, ok := groupFor(who, q)
	if !ok {
		return nil, &access.DeniedError{Actor: who.String(), Permission: access.Approve, Groups: q.By, Person: who.Over() != ""}
	}
	answer.Person, answer.PersonID, answer.Group = who.Person(), who.PersonID, group
	return q, nil
}

// groupFor is the group for which the caller answers; ok is false if the caller is a program, or not a member of
// any.
func groupFor(who access.Actor, q *session.Quorum) (group string, ok bool) {
	switch {
	case who.Over() != "":
		return "", false
	case who.OnHost():
		return session.AnyGroup, true
	case len(q.By) == 0:
		return "", true
	}
	i := slices.IndexFunc(q.By, func(group string) bool { return slices.Contains(who.Groups, group) })
	if i < 0 {
		return "", false
	}
	return q.By[i], true
}

// ChoicesFor are the answers to a request with a quorum that count if the caller gives them; nil:
// the request has no quorum, and all count.
func ChoicesFor(ctx context.Context, q *session.Quorum, choices []session.Choice) []session.Choice {
	if q == nil {
		return choices
	}
	who, _ := access.Of(ctx)
	group, ok := groupFor(who, q)
	return slices.DeleteFunc(slices.Clone(choices), func(c session.Choice) bool {
		return !ok || q.Refuses(session.Answer{Action: c.Action, Person: who.Person(), PersonID: who.PersonID, Group: group}) != ""
	})
}

// The limits of a caller's waits.
const (
	// AcceptTimeout limits the wait for a worker to accept a message.
	AcceptTimeout = 10 * time.Second
	// ApplyTimeout limits the wait for a session to apply it.
	ApplyTimeout = time.Minute
)

// message is a message to a running session: an update or, with the same name, a signal.
type message struct {
	update string
	// id makes the update idempotent; empty: each one is new.
	id       string
	argument any
}

// describeRunning returns Temporal's description of a session that has not ended. Otherwise the
// error has the reason [Lost] or [Ended].
func (b *Base) describeRunning(ctx context.Context, w *sessionstatus.Reader) (*workflowpb.WorkflowExecutionInfo, error) {
	if _, err := b.connected(); err != nil {
		return nil, err
	}
	info, err := w.Describe(ctx)
	switch {
	case errors.Is(err, sessionstatus.ErrUnknown) && w.Kept(ctx):
		return nil, lostError(w.Session)
	case err != nil:
		return nil, b.asNotFound(ctx, w.Session, err)
	case info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return info, endedError(w.Session, sessionstatus.ClosedState(info.GetStatus()))
	}
	return info, nil
}

// send sends a message to a session as an update. Its result is in answer, or accepted is false if no worker has accepted it
// in time: then it can be sent as a signal.
func send(ctx context.Context, conn *temporalutil.Connection, sessionID string, m message, answer any) (accepted bool,
	err error,
) {
	bounded, cancel := context.WithTimeout(ctx, AcceptTimeout)
	defer cancel()
	handle, err := update(bounded, conn, sessionID, m)
	switch {
	case err == nil:
		return true, applied(ctx, sessionID, handle, answer)
	case ctx.Err() != nil:
		return false, ctx.Err()
	case !timedOut(bounded, err):
		return false, refusal(sessionID, err)
	}
	return false, nil
}

// signal sends a message as a signal, which a worker reads when there is one.
func (m message) signal(ctx context.Context, conn *temporalutil.Connection, sessionID string) error {
	return conn.SignalWorkflow(ctx, sessionID, "", m.update, m.argument)
}

// update sends an update. Temporal gives it back if the workflow task with it has failed, and then takes it again.
func update(ctx context.Context, conn *temporalutil.Connection, sessionID string, m message) (client.WorkflowUpdateHandle,
	error,
) {
	for {
		handle, err := conn.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: sessionID, UpdateID: m.id, UpdateName: m.update, Args: []any{m.argument},
			WaitForStage: client.WorkflowUpdateStageAccepted,
		})
		if _, notReady := errors.AsType[*serviceerror.WorkflowNotReady](err); !notReady {
			return handle, err
		}
		if !retryafter.Wait(ctx, updatePause) {
			return handle, err
		}
	}
}

// updatePause is the time after which an update is sent again.
const updatePause = 200 * time.Millisecond

// applied waits until a session that has accepted a message has applied it. The session may have to
// stop agents first.
func applied(ctx context.Context, sessionID string, handle client.WorkflowUpdateHandle, answer any) error {
	bounded, cancel := context.WithTimeout(ctx, ApplyTimeout)
	defer cancel()
	err := handle.Get(bounded, answer)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case timedOut(bounded, err):
		return &Error{
			Problem{Kind: Unavailable, Session: sessionID, Reason: Slow},
			fmt.Errorf("session %s accepted the request but did not complete it within %s", sessionID, ApplyTimeout),
		}
	}
	return refusal(sessionID, err)
}

// refusal is the error of a message that a session does not accept.
func refusal(sessionID string, err error) error {
	refused, ok := errors.AsType[*temporal.ApplicationError](err)
	switch {
	case !ok:
		return conflictf(sessionID, "session %s: %w", sessionID, err)
	case refused.Type() == workflows.NotRaised:
		return invalidf("amount", "session %s: %s", sessionID, refused.Message())
	}
	return conflictf(sessionID, "session %s: %s", sessionID, refused.Message())
}

// timedOut reports whether a call to a workflow failed only because no worker answered it in
// time. The server also has the deadline, and may return this error shortly before bounded ends.
func timedOut(bounded context.Context, err error) bool {
	_, late := errors.AsType[*client.WorkflowUpdateServiceTimeoutOrCanceledError](err)
	return err != nil && (bounded.Err() != nil || late)
}

// checkUnread looks whether the request, with its quorum, is answered already by answers that wait for a worker. The error says
// by whom. again: it is the same answer of the same person, with the same note and files.
func checkUnread(ctx context.Context, conn *temporalutil.Connection, sessionID string, answer session.Answer,
	q *session.Quorum,
) (again bool, err error) {
	unread, err := conn.UnreadSignals(ctx, sessionID, workflows.ResolveUpdate)
	if err != nil {
		return false, err
	}
	for _, payloads := range slices.Backward(unread) { // the oldest first
		var a session.Answer
		switch err := converter.GetDefaultDataConverter().FromPayloads(payloads, &a); {
		case err != nil || a.Request != answer.Request:
			continue
		case a == answer:
			return true, nil
		}
		if q != nil && a.Action == session.AnswerApprove {
			if q.Refuses(a) != "" {
				continue
			}
			if q = q.With(a); q.Left() > 0 {
				continue
			}
		}
		return false, conflictf(sessionID, "request %s of session %s has an answer already, which counts when a worker is "+
			"back: %s by %s",
			answer.Request, sessionID, a.Action, cmp.Or(a.By, "somebody"))
	}
	if q != nil {
		if why := q.Refuses(answer); why != "" {
			return false, conflictf(sessionID, "request %s: %s", answer.Request, why)
		}
	}
	return false, nil
}
