package activities

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/team"
)

// Telling is what the workflow of a ticket is told.
type Telling struct {
	Notice team.Notice `json:"notice"`
	// Jira says how the ticket is made, where there is none yet.
	Jira *team.HelpJira `json:"jira,omitempty"`
	// Quiet: the session does not want to hear which ticket it is.
	Quiet bool `json:"quiet,omitempty"`
}

// Outside takes what people outside are told, and keeps it until they are. Each call
// may be made any number of times with one notice, and counts once. An error means
// that Temporal, or a worker that answers for a ticket, could not be reached.
type Outside interface {
	// TellFailure tells the ticket of a failure, TellTicket the one with a key.
	TellFailure(ctx context.Context, fingerprint string, t Telling) error
	TellTicket(ctx context.Context, key string, t Telling) error
	// TellWebhook tells the webhook.
	TellWebhook(ctx context.Context, n team.Notice) error
}

// Notices tells people outside of Temporal what happens to sessions.
type Notices struct {
	Outside Outside
	// Mask replaces every secret that the worker knows.
	Mask func(text string) string
	// Where says where the worker finds Temporal and the store.
	Where string
	// WebUI is the address of Temporal's Web UI; empty where it is not known.
	WebUI string
}

// The bounds of what a notice carries: it is kept in histories until it is told.
const (
	maxToldAttempts = 20
	maxToldText     = 4 * 1024
)

// Notify hands a notice to those who tell it: when it returns, they have it for good,
// and the session need not care how long telling takes. It needs nothing but Temporal,
// and may be repeated. It returns which failure the notice's request is about, if a
// ticket hears of it.
func (n *Notices) Notify(ctx context.Context, in NotifyInput) (out Notified, err error) {
	notice := n.fit(in.Notice)
	if in.Jira != nil {
		failures := slices.Clone(in.Fingerprints)
		if r := in.Notice.Request; r != nil {
			out.Fingerprint = r.Fingerprint(in.Notice.Team)
		}
		if out.Fingerprint != "" && !slices.Contains(failures, out.Fingerprint) {
			failures = append(failures, out.Fingerprint)
		}
		for _, fingerprint := range failures {
			if err := n.Outside.TellFailure(ctx, fingerprint, Telling{Notice: notice, Jira: in.Jira}); err != nil {
				return out, err
			}
		}
	}
	if in.ReportTo != "" {
		if err := n.Outside.TellTicket(ctx, in.ReportTo, Telling{Notice: notice, Quiet: out.Fingerprint != ""}); err != nil {
			return out, err
		}
	}
	if in.Webhook {
		return out, n.Outside.TellWebhook(ctx, notice)
	}
	return out, nil
}

// fit makes a notice fit to leave: with its address, without secrets, and no longer
// than it has to be.
func (n *Notices) fit(notice team.Notice) team.Notice {
	said := func(text string) string { return team.Shorten(n.Mask(safetext.Block(text)), maxToldText) }
	notice.Schema = team.NoticeSchema
	notice.Reason = said(notice.Reason)
	if r := notice.Request; r != nil {
		request := *r
		request.Message, request.Suggestion, request.Advice = said(r.Message), said(r.Suggestion), said(r.Advice)
		request.Attempts = slices.Clone(r.Attempts[max(0, len(r.Attempts)-maxToldAttempts):])
		for i, a := range request.Attempts {
			request.Attempts[i].Message = team.Shorten(n.Mask(safetext.Line(a.Message)), team.MaxMessage)
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
			"/workflows/" + url.PathEscape(notice.Session) + "/" + url.PathEscape(notice.Run)
	}
	return notice
}
