package control

import (
	"context"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/entityworkflow"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
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
	s.addTickets(ctx, &v)
	s.addDurations(&v)
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

// addDurations adds the durations of a session's phases and assignments, for running ones
// so far, from their records and running attempts.
func (s Sessions) addDurations(v *sessionstatus.Session) {
	if s.Store == nil {
		return
	}
	now := s.Now()
	for i := range v.Phases {
		p := &v.Phases[i]
		var began, ended time.Time
		for j := range p.Assignments {
			first, last, worked := s.worked(v, spec.AssignmentID{Phase: p.Name, Persona: p.Assignments[j].Persona}, now)
			p.Assignments[j].Seconds = worked.Seconds()
			if !first.IsZero() && (began.IsZero() || first.Before(began)) {
				began = first
			}
			if last.After(ended) {
				ended = last
			}
		}
		if !began.IsZero() && !p.Status.Done() && !v.Status.Status.Closed() {
			ended = now
		}
		p.Seconds = max(ended.Sub(began).Seconds(), 0)
	}
}

// worked is when the first attempt of an assignment began, when the last one ended, and the total
// time of all, including the one in progress.
func (s Sessions) worked(v *sessionstatus.Session, id spec.AssignmentID, now time.Time) (began, ended time.Time, worked time.Duration) {
	if as := v.Assignment(id); as == nil || as.Status == session.Pending {
		return began, ended, 0
	}
	if record, err := s.Store.Record(s.key(v.Session), id); err == nil {
		for _, at := range AttemptsOf(record) {
			worked += max(at.Ended().Sub(at.StartedAt), 0)
			if began.IsZero() {
				began = at.StartedAt
			}
			ended = at.Ended()
		}
	}
	if at, ok := v.Live[id]; ok && !at.Since.IsZero() {
		if began.IsZero() {
			began = at.Since
		}
		worked, ended = worked+now.Sub(at.Since), now
	}
	return began, ended, worked
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
