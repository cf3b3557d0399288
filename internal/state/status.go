package state

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// PutExecution writes the rows of a session's status: the session, its labels, requests, alerts, and the outcomes of its
// assignments. An older revision changes nothing. requirement is the requirement's text; empty: it stays.
func (d *DB) PutExecution(ctx context.Context, e session.Execution, requirement string) error {
	key := session.Key{Namespace: e.Namespace, Session: e.Session}
	return d.Write(ctx, func(t *Tx) error {
		now, err := t.Now()
		if err != nil {
			return err
		}
		started := now
		if e.StartedAt != nil {
			started = e.StartedAt.UnixMicro()
		}
		if err := t.insertSession(key, e.Team, requirement, started); err != nil {
			return err
		}
		changed, err := t.exec(`update sessions set team = $3, status = $4, reason = $5, phases = $6, revision = $7, boundary_at = $8, temporal_run = $9,
				first_run = $10, forked_from = $11, started_by = $12, started_by_id = $13, via = $14, started_at = $15, ended_at = $16, updated_at = $17
			where namespace = $1 and session = $2 and revision < $7`,
			key.Namespace, key.Session, e.Team, cmp.Or(string(e.Status.Status), string(session.Admitted)), textfmt.Shorten(e.Reason, session.MaxMessage),
			inProgress(e), e.Revision, micros(e.BoundaryAt), e.RunID, e.FirstRun, origin(e), e.StartedBy, e.StartedByID, e.StartedOver,
			started, microsOf(e.ClosedAt), micros(e.UpdatedAt))
		if err != nil || changed == 0 {
			return err
		}
		if requirement != "" {
			if err := t.setRequirement(key, requirement); err != nil {
				return err
			}
		}
		for _, write := range []func(session.Key, session.Execution) error{t.putLabels, t.putRequests, t.putAlerts, t.putOutcomes} {
			if err := write(key, e); err != nil {
				return err
			}
		}
		return t.changed(key, e.Team)
	})
}

func origin(e session.Execution) string {
	if e.Origin == nil {
		return ""
	}
	return e.Origin.Session
}

// inProgress are the names of the phases in progress.
func inProgress(e session.Execution) string {
	var names []string
	for _, p := range e.Phases {
		if !e.Status.Status.Closed() && (p.Status == session.Running || p.Status == session.AwaitingApproval) {
			names = append(names, p.Name)
		}
	}
	return strings.Join(names, " ")
}

func (t *Tx) setRequirement(s session.Key, requirement string) error {
	requirement = textfmt.Shorten(requirement, maxRequirement)
	_, err := t.exec(`update sessions set requirement = $3, search = $4 where namespace = $1 and session = $2`,
		s.Namespace, s.Session, requirement, strings.ToLower(s.Session+"\n"+requirement))
	return err
}

func (t *Tx) putLabels(s session.Key, e session.Execution) error {
	if _, err := t.exec(`delete from session_labels where namespace = $1 and session = $2`, s.Namespace, s.Session); err != nil {
		return err
	}
	for name, value := range e.Labels {
		if _, err := t.exec(`insert into session_labels (namespace, session, name, value) values ($1, $2, $3, $4)`, s.Namespace, s.Session, name, value); err != nil {
			return err
		}
	}
	return nil
}

// putRequests writes the open requests, and closes the others.
func (t *Tx) putRequests(s session.Key, e session.Execution) error {
	if _, err := t.exec(`update requests set closed_at = $3 where namespace = $1 and session = $2 and closed_at is null`,
		s.Namespace, s.Session, micros(e.UpdatedAt)); err != nil {
		return err
	}
	for _, h := range e.Help {
		actions, err := json.Marshal(h.Actions)
		if err != nil {
			return err
		}
		quorum, raise := "", ""
		if h.Quorum != nil {
			data, err := json.Marshal(h.Quorum)
			if err != nil {
				return err
			}
			quorum = string(data)
		}
		if h.Raise != nil {
			raise = budget.ScopeOf(h.Raise.Scope, h.Raise.Name)
		}
		var until, closed any
		if !h.Until.IsZero() {
			until = h.Until.UnixMicro()
		}
		if len(h.Actions) == 0 || e.Status.Status.Closed() { // nobody is asked
			closed = micros(e.UpdatedAt)
		}
		if _, err := t.exec(`insert into requests (namespace, session, id, kind, phase, persona, category, message, actions, raise_scope, quorum, opened_at, until_at, closed_at)
			values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
			on conflict (namespace, session, id) do update set message = excluded.message, quorum = excluded.quorum, until_at = excluded.until_at, closed_at = excluded.closed_at`,
			s.Namespace, s.Session, h.ID, string(h.Kind), h.Phase, h.Persona, string(h.Category), textfmt.Shorten(h.Message, session.MaxMessage), string(actions),
			raise, quorum, micros(h.Since), until, closed); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tx) putAlerts(s session.Key, e session.Execution) error {
	for _, a := range e.Alerts {
		if _, err := t.exec(`insert into alerts (namespace, session, rule, text, at) values ($1, $2, $3, $4, $5)
			on conflict (namespace, session, rule) do update set text = excluded.text, at = excluded.at`,
			s.Namespace, s.Session, a.Rule, a.Message, a.At.UnixMicro()); err != nil {
			return err
		}
	}
	return nil
}

// putOutcomes writes where each assignment stands. Work that was done by another session or by a person is left out.
func (t *Tx) putOutcomes(s session.Key, e session.Execution) error {
	if _, err := t.exec(`delete from outcomes where namespace = $1 and session = $2`, s.Namespace, s.Session); err != nil {
		return err
	}
	for _, p := range e.Phases {
		for _, a := range p.Assignments {
			if a.Attempts == 0 || a.Status == session.Restored || a.Status == session.Supplied {
				continue
			}
			if _, err := t.exec(`insert into outcomes (namespace, session, phase, persona, state, agent, model, attempts, failures, lost_workers)
				select $1, $2, $3, $4, $5, coalesce(max(agent), $6), coalesce(max(model), ''), $7, $8, $9 from (
					select agent, model from calls where namespace = $1 and session = $2 and phase = $3 and persona = $4
					order by begun_at desc, id limit 1) c`,
				s.Namespace, s.Session, p.Name, a.Persona, string(a.Status), a.Agent, int64(a.Attempts),
				int64(session.CountedAttempts(a.Failures)), int64(a.LostWorkers)); err != nil {
				return err
			}
		}
	}
	return nil
}

// PutAnswers writes the answers that a session has applied. A repetition changes nothing.
func (d *DB) PutAnswers(ctx context.Context, s session.Key, answers []session.Answer) error {
	if len(answers) == 0 {
		return nil
	}
	return d.Write(ctx, func(t *Tx) error {
		for _, a := range answers {
			person, whole := cmp.Or(a.Person, a.By), int64(0)
			if a.Whole {
				whole = 1
			}
			var opened any
			if !a.Since.IsZero() {
				opened = a.Since.UnixMicro()
			}
			if _, err := t.exec(`insert into answers (namespace, session, request, person, at, action, phase, persona, person_id, group_name, note, files, whole, work, opened_at)
				select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15 from sessions where namespace = $1 and session = $2
				on conflict (namespace, session, request, person, at) do nothing`,
				s.Namespace, s.Session, a.Request, person, micros(a.At), string(a.Action), a.Phase, a.Persona, a.PersonID, a.Group, a.Note,
				string(a.Files), whole, string(a.Work), opened); err != nil {
				return err
			}
		}
		return nil
	})
}

// micros is a time in microseconds; zero for the zero time.
func micros(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMicro()
}

// microsOf is null for nil.
func microsOf(at *time.Time) any {
	if at == nil {
		return nil
	}
	return at.UnixMicro()
}
