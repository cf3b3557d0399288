package cli

import (
	"context"
	"time"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/worker/service"
)

// ticketPatience bounds the look at the tickets of a session.
const ticketPatience = 2 * time.Second

// askTickets adds tickets of requests that the session does not know of: their
// workflows may know the problem when the session does not.
func askTickets(ctx context.Context, w *sessionstatus.Watcher, v *sessionstatus.Session) {
	if w.Conn == nil || w.Store == nil || v.Status.Status.Closed() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ticketPatience)
	defer cancel()
	for i, h := range v.Help {
		fingerprint := h.Fingerprint(v.Team)
		if fingerprint == "" || h.Ticket != nil && h.Ticket.Key != "" {
			continue
		}
		shown, ok, err := service.ReadTicket(ctx, w.Conn.Client, w.Store.ID(), fingerprint)
		if err == nil && ok && shown.Ticket != (session.Ticket{}) {
			v.Help[i].Ticket = &shown.Ticket
		}
	}
}
