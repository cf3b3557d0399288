package state

import (
	"context"

	"github.com/maestro-hive/maestro/internal/core/session"
)

func ticketColumns(namespace *string, r *session.TicketRecord) columns {
	return columns{
		{"namespace", namespace},
		{"name", &r.Name},
		{"revision", &r.Revision},
		{"key", &r.Ticket.Key},
		{"url", &r.Ticket.URL},
		{"occurrences", &r.Ticket.Occurrences},
		{"trouble", &r.Ticket.Trouble},
		{"kind", &r.Kind},
		{"deleted", &r.Deleted},
		{"followers", document{&r.Followers}},
		{"seen", document{&r.Seen}},
	}
}

// PutTicket stores the state of a ticket, unless the stored one has the same or a later revision.
func (d *DB) PutTicket(ctx context.Context, namespace string, r session.TicketRecord) error {
	return d.Write(ctx, func(t *Tx) error {
		return t.put("tickets", "namespace, name", ticketColumns(&namespace, &r), "excluded.revision > tickets.revision")
	})
}

// Ticket reads the stored state of a ticket. The error is [ErrNotFound] if there is none.
func (d *DB) Ticket(ctx context.Context, namespace, name string) (session.TicketRecord, error) {
	columnsOf := func(r *session.TicketRecord) columns { return ticketColumns(new(string), r) }
	return one(ctx, d, "tickets", columnsOf, "where namespace = $1 and name = $2", namespace, name)
}
