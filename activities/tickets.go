package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// The activities of a ticket's workflow. Those that call the ticket system are on
// [spec.TicketQueue]. Each makes one try: the workflow decides on retries.
const (
	// FindTicketName looks for a ticket by its label; see [TicketCalls.Find].
	FindTicketName Name = "find-ticket"
	// CreateTicketName makes a ticket; see [TicketCalls.Create].
	CreateTicketName Name = "create-ticket"
	// CommentTicketName adds a comment to a ticket; see [TicketCalls.Comment].
	CommentTicketName Name = "comment-ticket"
	// LoadTicketName reads a ticket's record; see [TicketRecords.Load].
	LoadTicketName Name = "load-ticket"
	// SaveTicketName writes a ticket's record; see [TicketRecords.Save].
	SaveTicketName Name = "save-ticket"
)

// TicketTroubled is the type of the errors of these activities whose details are a
// [TicketFault]. After any other error it is unknown whether the call had an effect.
const TicketTroubled = "TicketTrouble"

// TicketFault is the detail of a TicketTroubled error.
type TicketFault struct {
	Kind       session.TroubleKind `json:"kind"`
	Message    string              `json:"message"`
	RetryAfter textfmt.Duration    `json:"retry_after,omitempty"`
}

// FindTicket is the input of FindTicketName.
type FindTicket struct {
	Project string `json:"project"`
	Label   string `json:"label"`
}

// FoundTicket is the result of a search.
type FoundTicket struct {
	Ticket session.Ticket `json:"ticket"`
	Found  bool           `json:"found,omitempty"`
	// IndexDelay is how long after its creation a ticket may not be found.
	IndexDelay textfmt.Duration `json:"index_delay"`
}

// CreateTicket says of what a ticket is created, and how.
type CreateTicket struct {
	How    spec.HelpJira  `json:"how"`
	Label  string         `json:"label"`
	Notice session.Notice `json:"notice"`
}

// TicketCalls calls the ticket system.
type TicketCalls struct {
	Tickets Tickets
	// IndexDelay is how long after its creation a ticket may not be found.
	IndexDelay textfmt.Duration
	// Observer is notified of the outcome of each call.
	Observer Observer
}

// Find looks for a ticket.
func (c *TicketCalls) Find(ctx context.Context, in FindTicket) (FoundTicket, error) {
	ticket, ok, err := c.Tickets.Find(ctx, in.Project, in.Label)
	return FoundTicket{Ticket: ticket, Found: ok, IndexDelay: c.IndexDelay}, c.ticketError(err)
}

// Create creates a ticket. If its error is not TicketTroubled, or of kind unclear, there
// may be one.
func (c *TicketCalls) Create(ctx context.Context, in CreateTicket) (session.Ticket, error) {
	ticket, err := c.Tickets.Create(ctx, in.How, in.Label, in.Notice)
	return ticket, c.ticketError(err)
}

// Comment adds a notice to a ticket, and returns the ticket's address.
func (c *TicketCalls) Comment(ctx context.Context, in session.TicketComment) (session.Ticket, error) {
	err := c.Tickets.Comment(ctx, in)
	return session.Ticket{Key: in.Key, URL: c.Tickets.Address(in.Key)}, c.ticketError(err)
}

// TicketRecords reads and writes the records of tickets in the store.
type TicketRecords struct {
	Store     TicketStore
	Namespace string
}

// Load returns the record of a ticket: a new one if the store has none.
func (r *TicketRecords) Load(ctx context.Context, name string) (session.TicketRecord, error) {
	record, err := r.Store.Ticket(ctx, r.Namespace, name)
	if errors.Is(err, session.ErrNotFound) {
		return session.TicketRecord{Name: name}, nil
	}
	return record, storeError(ctx, err)
}

// Save writes the record of a ticket. It may be repeated.
func (r *TicketRecords) Save(ctx context.Context, record session.TicketRecord) error {
	return storeError(ctx, r.Store.PutTicket(ctx, r.Namespace, record))
}

// ticketError converts an error of the ticket system to the error of an activity.
func (c *TicketCalls) ticketError(err error) error {
	outcome := callDone
	var trouble *session.TicketTrouble
	switch {
	case errors.As(err, &trouble):
		outcome = string(trouble.Kind)
	case err != nil:
		outcome = string(session.Unclear)
	}
	c.Observer.ExternalCalled(TicketSystem, outcome)
	if trouble == nil {
		return err
	}
	message := trouble.Message
	if trouble.Kind == session.Unreached {
		message += "; retrying"
	}
	message = textfmt.Shorten(message, maxTrouble)
	return temporal.NewApplicationErrorWithOptions(message, TicketTroubled, temporal.ApplicationErrorOptions{
		NonRetryable: true, Details: []any{TicketFault{Kind: trouble.Kind, Message: message, RetryAfter: trouble.RetryAfter}},
	})
}

// maxTrouble bounds the text of an error of a ticket system or a webhook, in bytes: a memo
// contains it.
const maxTrouble = 1200
