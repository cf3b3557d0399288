package activities

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// TicketNotice is a notice for the workflow of a ticket.
type TicketNotice struct {
	Notice session.Notice `json:"notice"`
	// Jira says how the ticket is created if there is none yet.
	Jira *spec.HelpJira `json:"jira,omitempty"`
	// Quiet: the session is not to be notified which ticket it is.
	Quiet bool `json:"quiet,omitempty"`
}

// Recipients takes notices for tickets and webhooks, and keeps them until they are
// delivered. Each call may be repeated with the same notice, and counts once. An error
// means that Temporal, or a worker that serves the ticket's workflow, could not be reached.
type Recipients interface {
	// NotifyFailure takes a notice for the ticket of a failure, NotifyTicket one for the
	// ticket with a key.
	NotifyFailure(ctx context.Context, fingerprint string, n TicketNotice) error
	NotifyTicket(ctx context.Context, key string, n TicketNotice) error
	// NotifyWebhook takes a notice for the webhook.
	NotifyWebhook(ctx context.Context, n session.Notice) error
}

// Notices notifies people outside of Temporal of what happens to sessions.
type Notices struct {
	Recipients Recipients
	// Mask replaces every secret that the worker knows.
	Mask func(text string) string
	// Where describes the worker's Temporal and store.
	Where string
	// WebUI is the address of Temporal's Web UI; empty: unknown.
	WebUI string
	// Dashboard returns the address of the dashboard; empty, or nil, where none has been served.
	Dashboard func(context.Context) string
	// PullRequests returns the addresses of a session's pull requests; may be nil.
	PullRequests func(context.Context, session.Key) []string
}

// The bounds of a notice's texts: histories contain it until it is delivered.
const (
	maxToldAttempts = 20
	maxToldText     = 4 * 1024
)

// Notify passes a notice to its recipients. After it has returned without an error, they keep
// the notice until it is delivered, without a time limit. It may be repeated. It returns the
// fingerprint of the request's failure, if a ticket is created for it.
func (n *Notices) Notify(ctx context.Context, in NotifyInput) (out Notified, err error) {
	notice := n.prepare(ctx, in.Notice)
	if in.Jira != nil {
		failures := slices.Clone(in.Fingerprints)
		if r := in.Notice.Request; r != nil {
			out.Fingerprint = r.Fingerprint(in.Notice.Team)
		}
		if out.Fingerprint != "" && !slices.Contains(failures, out.Fingerprint) {
			failures = append(failures, out.Fingerprint)
		}
		for _, fingerprint := range failures {
			if err := n.Recipients.NotifyFailure(ctx, fingerprint, TicketNotice{Notice: notice, Jira: in.Jira}); err != nil {
				return out, err
			}
		}
	}
	if in.ReportTo != "" {
		if err := n.Recipients.NotifyTicket(ctx, in.ReportTo, TicketNotice{Notice: notice, Quiet: out.Fingerprint != ""}); err != nil {
			return out, err
		}
	}
	if in.Webhook {
		return out, n.Recipients.NotifyWebhook(ctx, notice)
	}
	return out, nil
}

// prepare adds the addresses to a notice, masks secrets and shortens its texts.
func (n *Notices) prepare(ctx context.Context, notice session.Notice) session.Notice {
	said := func(text string) string { return textfmt.Shorten(n.Mask(safetext.Block(text)), maxToldText) }
	notice.Schema = session.NoticeSchema
	notice.Reason = said(notice.Reason)
	if r := notice.Request; r != nil {
		request := *r
		request.Message, request.Suggestion = said(r.Message), said(r.Suggestion)
		request.Attempts = slices.Clone(r.Attempts[max(0, len(r.Attempts)-maxToldAttempts):])
		for i, a := range request.Attempts {
			request.Attempts[i].Message = textfmt.Shorten(n.Mask(safetext.Line(a.Message)), session.MaxMessage)
		}
		notice.Request = &request
	}
	if notice.Answer != nil {
		answer := *notice.Answer
		answer.Note, answer.By = said(answer.Note), said(answer.By)
		notice.Answer = &answer
	}
	notice.Commands = slices.Clone(notice.Commands)
	for i, c := range notice.Commands {
		notice.Commands[i] = said(c)
	}
	notice.Where = n.Where
	if n.WebUI != "" {
		notice.WebUI = strings.TrimRight(n.WebUI, "/") + "/namespaces/" + url.PathEscape(notice.Namespace) +
			"/workflows/" + url.PathEscape(notice.Session) + "/" + url.PathEscape(notice.RunID)
	}
	if n.Dashboard != nil {
		if at := n.Dashboard(ctx); at != "" {
			phase := ""
			if r := notice.Request; r != nil && r.Kind.OfPhase() {
				phase = r.Phase
			}
			notice.Dashboard = at + access.PagePath(notice.Session, phase)
		}
	}
	if n.PullRequests != nil {
		notice.PullRequests = n.PullRequests(ctx, session.Key{Namespace: notice.Namespace, Session: notice.Session})
	}
	return notice
}

// CallWebhookName delivers a notice to the webhook, on [spec.WebhookQueue]; see
// [WebhookCalls.Call].
const CallWebhookName Name = "call-webhook"

// The types of the errors of a webhook call: retryable, and not retryable.
const (
	WebhookUnreached = "WebhookUnreached"
	WebhookRefused   = "WebhookRefused"
)

// Webhook receives notices of events of sessions. Its errors are
// *session.WebhookTrouble.
type Webhook interface {
	// Deliver delivers a notice. The receiver recognises a repeated one by its id.
	Deliver(ctx context.Context, n session.Notice) error
}

// WebhookCalls calls the webhook.
type WebhookCalls struct {
	Webhook Webhook
	// Observer records the outcomes of calls.
	Observer Observer
}

// Call tries once to deliver a notice. The type of its error, and its retry delay, say
// whether and when to retry.
func (c *WebhookCalls) Call(ctx context.Context, n session.Notice) error {
	err := c.Webhook.Deliver(ctx, n)
	var trouble *session.WebhookTrouble
	switch {
	case err == nil:
		c.Observer.ExternalCalled(WebhookReceiver, callDone)
		return nil
	case !errors.As(err, &trouble):
		return err
	case trouble.Final:
		c.Observer.ExternalCalled(WebhookReceiver, callRefused)
		return temporal.NewApplicationErrorWithOptions(textfmt.Shorten(trouble.Message, maxTrouble), WebhookRefused,
			temporal.ApplicationErrorOptions{NonRetryable: true})
	}
	c.Observer.ExternalCalled(WebhookReceiver, string(session.Unreached))
	return temporal.NewApplicationErrorWithOptions(textfmt.Shorten(trouble.Message, maxTrouble), WebhookUnreached,
		temporal.ApplicationErrorOptions{NextRetryDelay: trouble.RetryAfter.Std()})
}
