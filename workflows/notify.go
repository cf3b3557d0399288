package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// lastNoticeLimit bounds how long a session that ends waits for its notices.
const lastNoticeLimit = time.Minute

// notifier notifies people outside of Temporal, in order.
type notifier struct {
	store, reportTo string
	team            *spec.Team
	status          *session.Status
	webhook         bool
	// fingerprints are those of the failures that tickets were made for.
	fingerprints []string
	// mutex keeps notices in order; sent counts them, and pending those in flight.
	mutex         workflow.Mutex
	sent, pending int
}

// wanted reports whether a ticket or the webhook is to be notified.
func (n *notifier) wanted() bool {
	return n.team.Help.Jira != nil || n.webhook || n.reportTo != ""
}

// notify sends a notice of an event, and does not wait until it is sent.
func (n *notifier) notify(ctx workflow.Context, event session.Event, h *session.Request, answer *session.Answer) {
	if !n.wanted() {
		return
	}
	n.send(ctx, n.input(ctx, event, h, answer))
}

// alert sends an alert to the webhook. Tickets do not get it.
func (n *notifier) alert(ctx workflow.Context, a session.Alert, h *session.Request) {
	if !n.webhook {
		return
	}
	in := n.input(ctx, session.AlertRaised, h, nil)
	in.Notice.Alert, in.Jira, in.ReportTo = &a, nil, ""
	n.send(ctx, in)
}

// send sends a notice after those before it.
func (n *notifier) send(ctx workflow.Context, in activities.NotifyInput) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	n.pending++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { n.pending-- }()
		if err := n.mutex.Lock(ctx); err != nil {
			return
		}
		defer n.mutex.Unlock()
		if in.Jira != nil && in.Notice.Request == nil { // for all tickets that were made by now
			in.Fingerprints = slices.Clone(n.fingerprints)
		}
		out, err := notifyPeople.atBoundary(ctx, in)
		if err != nil {
			workflow.GetLogger(ctx).Error("a notice was not sent", "event", in.Notice.Event, "error", err)
		}
		if out.Fingerprint != "" && !slices.Contains(n.fingerprints, out.Fingerprint) {
			n.fingerprints = append(n.fingerprints, out.Fingerprint)
		}
	})
}

// notifyEnd sends how the session ended, and waits for a while until all notices are
// sent. The answer is the one that ended the session; nil: none did.
func (n *notifier) notifyEnd(ctx workflow.Context, event session.Event, answer *session.Answer) {
	if !n.wanted() {
		return
	}
	n.notify(ctx, event, nil, answer)
	waiting, cancel := workflow.WithCancel(ctx)
	defer cancel()
	timer := workflow.NewTimerWithOptions(waiting, lastNoticeLimit, workflow.TimerOptions{Summary: "sending the notice of the session's end"})
	err := workflow.Await(ctx, func() bool { return n.pending == 0 || timer.IsReady() })
	if n.pending > 0 {
		workflow.GetLogger(ctx).Warn("the session ends; some of its notices may not have been delivered", "notices", n.pending, "waited", lastNoticeLimit, "error", err)
	}
}

// input returns the notice of an event.
func (n *notifier) input(ctx workflow.Context, event session.Event, h *session.Request, answer *session.Answer) activities.NotifyInput {
	info := workflow.GetInfo(ctx)
	n.sent++
	in := activities.NotifyInput{
		Notice: session.Notice{
			Schema: session.NoticeSchema, ID: fmt.Sprintf("%s/%s/%d", n.status.Session, info.WorkflowExecution.RunID, n.sent),
			Event: event, At: workflow.Now(ctx).UTC(), Session: n.status.Session, RunID: info.WorkflowExecution.RunID,
			Namespace: info.Namespace, Store: n.store, Team: n.team.Name, Run: n.status.Run,
			Status: n.status.Status, Reason: textfmt.Shorten(n.status.Reason, session.MaxMessage), Request: h, Answer: answer,
			Usage: n.status.Usage, Checkpoint: n.status.Checkpoint,
		},
		Jira: n.team.Help.Jira, ReportTo: n.reportTo, Webhook: n.webhook,
	}
	in.Notice.Commands = []string{"maestro status " + n.status.Session, "maestro artifacts list " + n.status.Session}
	if in.Notice.Asks() {
		in.Notice.Commands = commandsFor(n.status.Session, *h)
	}
	if event == session.SessionFailed || event == session.SessionCancelled {
		in.Notice.Commands = slices.Insert(in.Notice.Commands, 0, "maestro resume "+n.status.Session)
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
