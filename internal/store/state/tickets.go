package state

import (
	"context"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// ticketRow is a row of tickets.
type ticketRow struct {
	Namespace string
	session.TicketRecord
}

// PutTicket stores the state of a ticket, unless the stored one has the same or a later revision.
func (d *DB) PutTicket(ctx context.Context, namespace string, r session.TicketRecord) error {
	return d.Write(ctx, func(t *Tx) error {
		return t.put("tickets", "namespace, name", columnsOf(&ticketRow{namespace, r}), "excluded.revision > tickets.revision")
	})
}

// Ticket reads the stored state of a ticket. The error is [ErrNotFound] if there is none.
func (d *DB) Ticket(ctx context.Context, namespace, name string) (session.TicketRecord, error) {
	row, err := one[ticketRow](ctx, d, "tickets", "where namespace = $1 and name = $2", namespace, name)
	return row.TicketRecord, err
}
