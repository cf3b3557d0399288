package control

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/entityworkflow"
	"github.com/maestro-hive/maestro/workflows"
)

// ticketPatience limits the time for reading the tickets of a session.
const ticketPatience = 2 * time.Second

// Status is the current status of a session, as of [Sessions.Read], with what its work has done, its interventions, the checks
// and dependencies of its team, and tickets that only their own workflows have.
func (s Sessions) Status(ctx context.Context, sessionID string) (sessionstatus.Session, error) {
	v, err := s.Read(ctx, sessionID)
	if err != nil {
		return v, err
	}
	v.Status = v.Clone()
	v.Course.Source, v.Interventions = nil, []sessionstatus.Intervention{} // a source is a directory of one host
	s.addTickets(ctx, &v)
	s.addWork(ctx, &v)
	checkpoint, err := s.Store.Checkpoint(ctx, v.Checkpoint)
	if err != nil { // it is damaged, or not stored yet
		k, _ := s.kept(ctx, v.Session)
		checkpoint = k.Checkpoint
	}
	s.addTeam(ctx, &v, checkpoint)
	account, _ := s.Store.State.Account(ctx, s.key(v.Session)) // without it only raises are missing
	v.Interventions = sessionstatus.InterventionsOf(checkpoint, account.Raises)
	return v, nil
}

// addTeam adds on what the phases depend, and the checks that the team's work has to pass. Where the team is not known, phases
// follow one another.
func (s Sessions) addTeam(ctx context.Context, v *sessionstatus.Session, c session.Checkpoint) {
	t, _ := s.Store.Team(ctx, c.Team.Blob)
	for i := range v.Phases {
		if phase, ok := t.Phase(v.Phases[i].Name); ok {
			v.Phases[i].Needs = phase.Needs
		} else if i > 0 {
			v.Phases[i].Needs = []string{v.Phases[i-1].Name}
		}
	}
	for _, use := range t.CheckUses() {
		if !slices.Contains(v.Checks, use.Check) {
			v.Checks = append(v.Checks, use.Check)
		}
	}
}

// addTickets adds tickets of requests that the session does not have: a ticket's workflow may know
// an error earlier than the session.
func (s Sessions) addTickets(ctx context.Context, v *sessionstatus.Session) {
	conn := s.conn()
	if conn == nil || v.Status.Status.Closed() {
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

// addWork adds the durations of a session's phases and assignments, from their records, and where assignments stand. The progress
// of an attempt at work on this host is the newest line of its output: heartbeats deliver it some seconds later.
func (s Sessions) addWork(ctx context.Context, v *sessionstatus.Session) {
	var attempts []Attempt
	logs := s.LiveLogs(ctx)
	records, _ := s.Store.State.Records(ctx, s.key(v.Session)) // without them the status has no durations
	for _, record := range records {
		attempts = append(attempts, attemptsOf(record)...)
		as := v.Assignment(record.Assignment)
		if as == nil || as.Status == session.Pending || len(record.Rounds) == 0 {
			continue
		}
		last := record.Rounds[len(record.Rounds)-1]
		as.Pass, as.Round, as.Attempt = last.Pass, last.Round, last.Attempt()
		if at, ok := begun(record); ok && as.Status == session.Running {
			as.Progress = cmp.Or(logs.headline(s.key(v.Session), at), as.Progress)
		}
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
	if at := access.ServedAt(ctx, s.Store.State); at != "" {
		return at + access.PagePath(sessionID, "")
	}
	return ""
}
