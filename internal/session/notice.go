package session

import (
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// NoticeSchema is the schema name of a notice.
const NoticeSchema = "maestro.notice/v1"

// Event says what a notice is about.
type Event string

// The events that people are told of.
const (
	// HelpAsked: a session waits for a person, because rounds or a budget are spent.
	HelpAsked Event = "help_needed"
	// ApprovalAsked: a session waits for a person's word on a finished phase.
	ApprovalAsked Event = "approval_needed"
	// WentOn: a request was answered, and the session continues.
	WentOn Event = "went_on"
	// SessionCompleted, SessionFailed and SessionCancelled: it has ended.
	SessionCompleted Event = "completed"
	SessionFailed    Event = "failed"
	SessionCancelled Event = "cancelled"
	// AlertRaised: the threshold of an alert rule was reached.
	AlertRaised Event = "alert"
)

// Notice tells people outside what happens to a session: the webhook's document,
// and what a ticket's text is made of. It holds no secrets.
type Notice struct {
	Schema string `json:"schema"`
	// ID is the same however often the notice is sent.
	ID    string    `json:"id"`
	Event Event     `json:"event"`
	At    time.Time `json:"at"`
	// Session, Run and Namespace name the workflow; Store the store.
	Session     string `json:"session"`
	Run         string `json:"run"`
	Namespace   string `json:"namespace"`
	Store       string `json:"store"`
	Team        string `json:"team"`
	Incarnation int    `json:"incarnation"`
	// Status and Reason are the session's.
	Status State  `json:"status"`
	Reason string `json:"reason,omitempty"`
	// Request is what a person is needed for, or was; Answer what was said to it.
	Request *Request `json:"request,omitempty"`
	Answer  *Answer  `json:"answer,omitempty"`
	// Alert is the rule that was broken, by how much.
	Alert *Alert `json:"alert,omitempty"`
	// Usage is the session's so far.
	Usage      cost.Usage  `json:"usage"`
	Checkpoint spec.Digest `json:"checkpoint,omitempty"`
	// Commands are what a person can type, the most useful one first.
	Commands []string `json:"commands,omitempty"`
	// Where says where the commands find Temporal and the store, as the worker does
	// that tells it.
	Where string `json:"where,omitempty"`
	// WebUI is the address of the session's page; empty where it is not known.
	WebUI string `json:"web_ui,omitempty"`
	// Dashboard is the address of the session's page in the dashboard, of the phase's where it is
	// to be approved; empty where none has been served.
	Dashboard string `json:"dashboard,omitempty"`
}

// Asks reports whether the notice is about a session that waits for a person.
func (n Notice) Asks() bool { return n.Event == HelpAsked || n.Event == ApprovalAsked }

// Ends reports whether the notice is about a session that has ended.
func (n Notice) Ends() bool {
	return n.Event == SessionCompleted || n.Event == SessionFailed || n.Event == SessionCancelled
}

// Ticket is a ticket as far as it is known.
type Ticket struct {
	// Key and URL are empty until it exists.
	Key string `json:"key,omitempty"`
	URL string `json:"url,omitempty"`
	// Occurrences counts how often its failure has occurred.
	Occurrences int `json:"occurrences,omitempty"`
	// Trouble says why it is not up to date; empty: nothing is wrong.
	Trouble string `json:"trouble,omitempty"`
}

// TroubleKind says what it means that a ticket system has not done as asked.
type TroubleKind string

// The kinds of trouble.
const (
	// Unreached: it is not done, and may be tried again.
	Unreached TroubleKind = "unreached"
	// Unclear: it may have been done, because the answer was lost.
	Unclear TroubleKind = "unclear"
	// Misconfigured: it is not done, and somebody has to fix credentials, rights
	// or the configuration first.
	Misconfigured TroubleKind = "misconfigured"
	// Gone: the ticket itself is not there any more.
	Gone TroubleKind = "gone"
)

// TicketTrouble is the error of a ticket system.
type TicketTrouble struct {
	Kind TroubleKind
	// Message is a sentence on what is wrong, and what would be right. It holds no
	// secrets.
	Message string
	// RetryAfter is the wait that was asked for; zero: none was.
	RetryAfter textfmt.Duration
}

// Error makes it an error.
func (t *TicketTrouble) Error() string { return t.Message }

// WebhookTrouble is the error of a webhook that has not taken a notice.
type WebhookTrouble struct {
	// Message is a sentence on what is wrong, and what would be right. It holds no
	// secrets, and so not the webhook's address.
	Message string
	// Final: it would not take the notice another time either.
	Final bool
	// RetryAfter is the wait that was asked for; zero: none was.
	RetryAfter textfmt.Duration
}

// Error makes it an error.
func (t *WebhookTrouble) Error() string { return t.Message }
