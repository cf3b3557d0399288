package session

import (
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// NoticeSchema is the schema name of a notice.
const NoticeSchema = "maestro.notice/v1"

// Event is what a notice is about.
type Event string

// The events of which people are notified.
const (
	// HelpAsked: a session waits for a person, because rounds or a budget are used up.
	HelpAsked Event = "help_needed"
	// ApprovalAsked: a session waits for a person's decision on a finished phase.
	ApprovalAsked Event = "approval_needed"
	// RequestClosed: a request was answered or is not needed any more, and the session continues.
	RequestClosed Event = "request_closed"
	// SessionCompleted, SessionFailed and SessionCancelled: it has ended.
	SessionCompleted Event = "completed"
	SessionFailed    Event = "failed"
	SessionCancelled Event = "cancelled"
	// AlertRaised: the threshold of an alert rule was reached.
	AlertRaised Event = "alert"
)

// Notice is a message to people about an event of a session: the webhook's document, and the source
// of a ticket's text. It holds no secrets.
type Notice struct {
	Schema string `json:"schema"`
	// ID is the same however often the notice is sent.
	ID    string    `json:"id"`
	Event Event     `json:"event"`
	At    time.Time `json:"at"`
	// Session, RunID and Namespace name the workflow; Store the store. Run is the number of the session's run.
	Session   string `json:"session"`
	RunID     string `json:"run_id"`
	Namespace string `json:"namespace"`
	Store     string `json:"store"`
	Team      string `json:"team"`
	Run       int    `json:"run"`
	// Status and Reason are the session's.
	Status State  `json:"status"`
	Reason string `json:"reason,omitempty"`
	// Request is the request that the notice is about, and Answer the answer to it.
	Request *Request `json:"request,omitempty"`
	Answer  *Answer  `json:"answer,omitempty"`
	// Alert is the alert that was raised.
	Alert *Alert `json:"alert,omitempty"`
	// Usage is the session's so far.
	Usage      cost.Usage  `json:"usage"`
	Checkpoint spec.Digest `json:"checkpoint,omitempty"`
	// Commands are the commands that a person can run, the most useful one first.
	Commands []string `json:"commands,omitempty"`
	// Where describes how the commands find Temporal and the store, by the settings of the worker
	// that sends the notice.
	Where string `json:"where,omitempty"`
	// WebUI is the address of the session's page; empty where it is not known.
	WebUI string `json:"web_ui,omitempty"`
	// Dashboard is the address of the session's page in the dashboard, or of the phase's page if
	// the phase is to be approved; empty if no dashboard has been served.
	Dashboard string `json:"dashboard,omitempty"`
	// PullRequests are the addresses of the session's pull requests.
	PullRequests []string `json:"pull_requests,omitempty"`
}

// Asks reports whether the notice is about a session that waits for a person.
func (n Notice) Asks() bool { return n.Event == HelpAsked || n.Event == ApprovalAsked }

// Ends reports whether the notice is about a session that has ended.
func (n Notice) Ends() bool {
	return n.Event == SessionCompleted || n.Event == SessionFailed || n.Event == SessionCancelled
}

// Ticket is the known state of a ticket.
type Ticket struct {
	// Key and URL are empty until it exists.
	Key string `json:"key,omitempty"`
	URL string `json:"url,omitempty"`
	// Occurrences counts how often its failure has occurred.
	Occurrences int `json:"occurrences,omitempty"`
	// Trouble is the reason why it is not up to date; empty: it is up to date.
	Trouble string `json:"trouble,omitempty"`
}

// TroubleKind classifies failed calls of a ticket system.
type TroubleKind string

// The kinds of failed calls.
const (
	// Unreached: the call is not done, and may be retried.
	Unreached TroubleKind = "unreached"
	// Unclear: the call may have been done, because the answer was lost.
	Unclear TroubleKind = "unclear"
	// Misconfigured: the call is not done, and somebody has to correct credentials, permissions or
	// the configuration first.
	Misconfigured TroubleKind = "misconfigured"
	// Gone: the ticket does not exist any more.
	Gone TroubleKind = "gone"
)

// TicketTrouble is the error of a ticket system.
type TicketTrouble struct {
	Kind TroubleKind
	// Message is a sentence on what is wrong, and how to correct it. It holds no secrets.
	Message string
	// RetryAfter is the wait that the ticket system requested; zero: none.
	RetryAfter textfmt.Duration
}

// Error makes it an error.
func (t *TicketTrouble) Error() string { return t.Message }

// WebhookTrouble is the error of a webhook that has not accepted a notice.
type WebhookTrouble struct {
	// Message is a sentence on what is wrong, and how to correct it. It holds no secrets, so it
	// does not have the webhook's address.
	Message string
	// Final: the webhook would not accept the notice at a retry either.
	Final bool
	// RetryAfter is the wait that the webhook requested; zero: none.
	RetryAfter textfmt.Duration
}

// Error makes it an error.
func (t *WebhookTrouble) Error() string { return t.Message }
