package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// lastNoticeLimit bounds how long a session that ends waits for its notices.
const lastNoticeLimit = time.Minute

// notifies reports whether a ticket or the webhook is to be notified.
func (s *sessionRun) notifies() bool {
	return s.Team.Help.Jira != nil || s.Webhook || s.in.ReportTo != ""
}

// notify sends a notice of an event, and does not wait until it is sent.
func (s *sessionRun) notify(ctx workflow.Context, event session.Event, h *session.Request, answer *session.Answer) {
	if !s.notifies() {
		return
	}
	s.sendNotice(ctx, s.noticeInput(ctx, event, h, answer))
}

// notifyAlert sends an alert to the webhook. Tickets do not get it.
func (s *sessionRun) notifyAlert(ctx workflow.Context, a session.Alert, h *session.Request) {
	if !s.Webhook {
		return
	}
	in := s.noticeInput(ctx, session.AlertRaised, h, nil)
	in.Notice.Alert, in.Jira, in.ReportTo = &a, nil, ""
	s.sendNotice(ctx, in)
}

// sendNotice sends a notice after those before it.
func (s *sessionRun) sendNotice(ctx workflow.Context, in activities.NotifyInput) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	s.noticesPending++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { s.noticesPending-- }()
		if err := s.notices.Lock(ctx); err != nil {
			return
		}
		defer s.notices.Unlock()
		if in.Jira != nil && in.Notice.Request == nil { // for all tickets that were made by now
			in.Fingerprints = slices.Clone(s.Fingerprints)
		}
		out, err := notifyPeople.localFirst(ctx, in)
		if err != nil {
			workflow.GetLogger(ctx).Error("a notice was not sent", "event", in.Notice.Event, "error", err)
		}
		if out.Fingerprint != "" && !slices.Contains(s.Fingerprints, out.Fingerprint) {
			s.Fingerprints = append(s.Fingerprints, out.Fingerprint)
		}
	})
}

// notifyEnd sends how the session ended, and waits for a while until all notices are
// sent. The answer is the one that ended the session; nil if none did.
func (s *sessionRun) notifyEnd(ctx workflow.Context, event session.Event, answer *session.Answer) {
	if !s.notifies() {
		return
	}
	s.notify(ctx, event, nil, answer)
	waiting, cancel := workflow.WithCancel(ctx)
	defer cancel()
	timer := workflow.NewTimerWithOptions(waiting, lastNoticeLimit,
		workflow.TimerOptions{Summary: "sending the notice of the session's end"})
	err := workflow.Await(ctx, func() bool { return s.noticesPending == 0 || timer.IsReady() })
	if s.noticesPending > 0 {
		workflow.GetLogger(ctx).Warn("the session ends; some of its notices may not have been delivered", "notices", s.noticesPending,
			"waited", lastNoticeLimit, "error", err)
	}
}

// noticeInput returns the notice of an event.
func (s *sessionRun) noticeInput(ctx workflow.Context, event session.Event, h *session.Request,
	answer *session.Answer,
) activities.NotifyInput {
	info := workflow.GetInfo(ctx)
	s.noticesSent++
	in := activities.NotifyInput{
		Notice: session.Notice{
			Schema: session.NoticeSchema, ID: fmt.Sprintf("%s/%s/%d", s.Status.Session, info.WorkflowExecution.RunID, s.noticesSent),
			Event: event, At: workflow.Now(ctx).UTC(), Session: s.Status.Session, RunID: info.WorkflowExecution.RunID,
			Namespace: info.Namespace, Store: s.in.Store, Team: s.Team.Name, Run: s.Status.Run,
			Status: s.Status.Status, Reason: textfmt.Shorten(s.Status.Reason, session.MaxMessage), Request: h, Answer: answer,
			Usage: s.Status.Usage, Checkpoint: s.Status.Checkpoint,
		},
		Jira: s.Team.Help.Jira, ReportTo: s.in.ReportTo, Webhook: s.Webhook,
	}
	in.Notice.Commands = []string{"maestro status " + s.Status.Session, "maestro artifacts list " + s.Status.Session}
	if in.Notice.Asks() {
		in.Notice.Commands = commandsFor(s.Status.Session, *h)
	}
	if event == session.SessionFailed || event == session.SessionCancelled {
		in.Notice.Commands = slices.Insert(in.Notice.Commands, 0, "maestro resume "+s.Status.Session)
	}
	return in
}

// commandsFor returns the commands for a request, the most useful one first.
func commandsFor(id string, h session.Request) []string {
	var commands []string
	for _, c := range h.LastingCommands(id) {
		commands = append(commands, "maestro "+c.Line)
	}
	if h.Kind.OfPhase() {
		return commands
	}
	return append(commands, "maestro status "+id, fmt.Sprintf("maestro logs %s %s", id, h.Subject()), "maestro artifacts list "+id)
}
