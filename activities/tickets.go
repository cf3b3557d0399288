package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/team"
)

// The activities of a ticket's workflow, on [team.TicketQueue]. Each is one try: the
// workflow decides about the next.
const (
	// FindTicketName looks for a ticket by its label; see [TicketCalls.Find].
	FindTicketName Name = "find-ticket"
	// CreateTicketName makes a ticket; see [TicketCalls.Create].
	CreateTicketName Name = "create-ticket"
	// CommentTicketName adds to a ticket; see [TicketCalls.Comment].
	CommentTicketName Name = "comment-ticket"
)

// TicketTroubled is the type of the errors of these activities whose details are a
// [TicketFault]. Any other error leaves open what was done.
const TicketTroubled = "TicketTrouble"

// TicketFault is the detail of a TicketTroubled error.
type TicketFault struct {
	Kind       team.TroubleKind `json:"kind"`
	Message    string           `json:"message"`
	RetryAfter team.Duration    `json:"retry_after,omitempty"`
}

// FindTicket names a ticket by its label.
type FindTicket struct {
	Project string `json:"project"`
	Label   string `json:"label"`
}

// FoundTicket is what a search has found.
type FoundTicket struct {
	Ticket team.Ticket `json:"ticket"`
	Found  bool        `json:"found,omitempty"`
	// IndexDelay is how long after its creation a ticket may not be found.
	IndexDelay team.Duration `json:"index_delay"`
}

// CreateTicket says of what a ticket is made, and how.
type CreateTicket struct {
	How    team.HelpJira `json:"how"`
	Label  string        `json:"label"`
	Notice team.Notice   `json:"notice"`
}

// CommentTicket says what a ticket is told.
type CommentTicket struct {
	Key    string      `json:"key"`
	Notice team.Notice `json:"notice"`
	// Occurrences is how often the ticket's failure has occurred; zero: nobody counts.
	Occurrences int `json:"occurrences,omitempty"`
	// Again: an earlier try may have done it.
	Again bool `json:"again,omitempty"`
}

// TicketCalls talks to the ticket system.
type TicketCalls struct {
	Tickets Tickets
	// IndexDelay is how long after its creation a ticket may not be found.
	IndexDelay team.Duration
	// Observer hears what calls come to.
	Observer Observer
}

// Find looks for a ticket.
func (c *TicketCalls) Find(ctx context.Context, in FindTicket) (FoundTicket, error) {
	ticket, ok, err := c.Tickets.Find(ctx, in.Project, in.Label)
	return FoundTicket{Ticket: ticket, Found: ok, IndexDelay: c.IndexDelay}, c.troubled(err)
}

// Create makes a ticket. If its error is not TicketTroubled, or of kind unclear, there
// may be one.
func (c *TicketCalls) Create(ctx context.Context, in CreateTicket) (team.Ticket, error) {
	ticket, err := c.Tickets.Create(ctx, in.How, in.Label, in.Notice)
	failpoint.Here("ticket created, not told")
	return ticket, c.troubled(err)
}

// Comment adds a notice to a ticket, and returns the ticket's address.
func (c *TicketCalls) Comment(ctx context.Context, in CommentTicket) (team.Ticket, error) {
	err := c.Tickets.Comment(ctx, in.Key, in.Notice, in.Occurrences, in.Again)
	failpoint.Here("ticket commented, not told")
	return team.Ticket{Key: in.Key, URL: c.Tickets.Address(in.Key)}, c.troubled(err)
}

// troubled is how a ticket system's error leaves an activity.
func (c *TicketCalls) troubled(err error) error {
	outcome := callDone
	var trouble *team.TicketTrouble
	switch {
	case errors.As(err, &trouble):
		outcome = string(trouble.Kind)
	case err != nil:
		outcome = string(team.Unclear)
	}
	observed(c.Observer).OutsideCalled(TicketSystem, outcome)
	if trouble == nil {
		return err
	}
	message := trouble.Message
	if trouble.Kind == team.Unreached {
		message += "; it is tried again"
	}
	message = team.Shorten(message, maxTrouble)
	return temporal.NewApplicationErrorWithOptions(message, TicketTroubled, temporal.ApplicationErrorOptions{
		NonRetryable: true, Details: []any{TicketFault{Kind: trouble.Kind, Message: message, RetryAfter: trouble.RetryAfter}},
	})
}

// maxTrouble bounds, in bytes, what is said of a ticket system or a webhook that does
// not do as asked: it is kept in a memo.
const maxTrouble = 1200
