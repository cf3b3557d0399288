package control

import (
	"cmp"
	"context"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/entityworkflow"
	"github.com/maestro-hive/maestro/workflows"
)

// ticketPatience limits the time for reading the tickets of a session.
const ticketPatience = 2 * time.Second

// Status is the current status of a session, as of [Sessions.Read], with the durations of its work,
// its interventions, and tickets that only their own workflows have.
func (s Sessions) Status(ctx context.Context, sessionID string) (sessionstatus.Session, error) {
	v, err := s.Read(ctx, sessionID)
	if err != nil {
		return v, err
	}
	v.Status = v.Clone()
	v.Course.Source, v.Interventions = nil, []sessionstatus.Intervention{} // a source is a directory of one host
	s.addTickets(ctx, &v)
	s.addDurations(ctx, &v)
	s.addInterventions(ctx, &v)
	return v, nil
}

// addInterventions adds what people and reviewing agents did, from what the store has of it.
func (s Sessions) addInterventions(ctx context.Context, v *sessionstatus.Session) {
	if s.Store == nil {
		return
	}
	checkpoint, err := s.Store.Checkpoint(ctx, v.Checkpoint)
	if err != nil { // it is damaged, or not stored yet
		k, _ := s.kept(ctx, v.Session)
		checkpoint = k.Checkpoint
	}
	account, _ := s.Store.State.Account(ctx, s.key(v.Session)) // without it only raises are missing
	v.Interventions = sessionstatus.InterventionsOf(checkpoint, account.Raises)
}

// addTickets adds tickets of requests that the session does not have: a ticket's workflow may know
// an error earlier than the session.
func (s Sessions) addTickets(ctx context.Context, v *sessionstatus.Session) {
	conn := s.conn()
	if conn == nil || s.Store == nil || v.Status.Status.Closed() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ticketPatience)
	defer cancel()
	for i, h := range v.Help {
		fingerprint := h.Fingerprint(v.Team)
		if fingerprint == "" || h.Ticket != nil && h.Ticket.Key != "" {
			continue
		}
		var shown workflows.TicketView
		known, err := entityworkflow.Memo(ctx, conn.Client, workflows.TicketID(s.Store.ID(), fingerprint), workflows.MemoTicket, &shown)
		if err == nil && known && shown.Ticket != (session.Ticket{}) {
			v.Help[i].Ticket = &shown.Ticket
		}
	}
}

// addDurations adds the durations of a session's phases and assignments, from their records.
func (s Sessions) addDurations(ctx context.Context, v *sessionstatus.Session) {
	if s.Store == nil {
		return
	}
	var attempts []Attempt
	records, _ := s.Store.State.Records(ctx, s.key(v.Session)) // without them the status has no durations
	for _, record := range records {
		attempts = append(attempts, attemptsOf(record)...)
	}
	AddTimes(&v.Status, attempts, s.Now())
}

// AddTimes adds how long assignments have been at work, and how long phases took or take.
func AddTimes(v *session.Status, attempts []Attempt, now time.Time) {
	now = cmp.Or(timeOf(v.ClosedAt), now)
	for i := range v.Phases {
		p := &v.Phases[i]
		var began, ended time.Time
		for j := range p.Assignments {
			a := &p.Assignments[j]
			a.Seconds = 0
			for _, at := range attempts {
				if at.Phase != p.Name || at.Persona != a.Persona || a.Status == session.Pending {
					continue
				}
				a.Seconds += at.Worked(now).Seconds()
				if began.IsZero() || at.StartedAt.Before(began) {
					began = at.StartedAt
				}
				if end := cmp.Or(at.Ended(), now); end.After(ended) {
					ended = end
				}
			}
		}
		if !began.IsZero() && !p.Status.Done() {
			ended = now
		}
		p.Seconds = max(ended.Sub(began).Seconds(), 0)
	}
}

// Dashboard is the address of the page of a session; empty: no server serves the store.
func (s Sessions) Dashboard(ctx context.Context, sessionID string) string {
	if s.Store == nil {
		return ""
	}
	if at := access.ServedAt(ctx, s.Store.State); at != "" {
		return at + access.PagePath(sessionID, "")
	}
	return ""
}
