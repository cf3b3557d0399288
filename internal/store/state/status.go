package state

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// Execution reads a session's status as of its newest boundary, without costs. The error is [ErrNotFound] if no boundary was
// written.
func (d *DB) Execution(ctx context.Context, key session.Key) (session.Execution, error) {
	e, err := read(ctx, d, func(t *Tx) (session.Execution, error) { return t.execution(key) })
	if err != nil {
		return session.Execution{}, fmt.Errorf("session %s: %w", key.Session, err)
	}
	return e, nil
}

func (t *Tx) execution(key session.Key) (e session.Execution, err error) {
	e.Namespace, e.Session, e.Help = key.Namespace, key.Session, []session.Request{}
	var origin session.Origin
	err = t.row(`select s.team, s.status, s.reason, s.revision, r.run, s.boundary_at, s.temporal_run, s.first_run,
			s.forked_from, s.forked_at,
			coalesce((select c.digest from checkpoints c where c.namespace = s.namespace and c.session = s.session
				order by c.run desc, c.boundary_at desc limit 1), ''),
			s.started_by, s.started_by_id, s.via, s.started_at, s.ended_at, s.updated_at, s.decisions, r.selection, r.plan,
				r.original_run, r.first
		from sessions s join runs r on r.namespace = s.namespace and r.session = s.session and r.temporal_run = s.temporal_run
		where s.namespace = $1 and s.session = $2 and s.revision > 0`, key.Namespace, key.Session).
		Scan(&e.Team, &e.Status.Status, &e.Reason, &e.Revision, &e.Run, moment{&e.BoundaryAt}, &e.RunID, &e.FirstRun, &origin.Session,
			&origin.Checkpoint, &e.Checkpoint,
			&e.StartedBy, &e.StartedByID, &e.StartedOver, optional{&e.StartedAt}, optional{&e.ClosedAt}, moment{&e.UpdatedAt},
			document{&e.Decisions}, document{&e.Course}, document{&e.Plan}, &e.OriginalRun, &e.First)
	if err != nil {
		return e, err
	}
	if origin.Session != "" {
		e.Origin = &origin
	}
	for _, read := range []func(*session.Execution) error{t.readLabels, t.readPhases, t.readRequests, t.readAlerts} {
		if err := read(&e); err != nil {
			return e, err
		}
	}
	return e, nil
}

func (t *Tx) readLabels(e *session.Execution) error {
	return t.each(func(r *sql.Rows) error {
		var name, value string
		err := r.Scan(&name, &value)
		if e.Labels == nil {
			e.Labels = map[string]string{}
		}
		e.Labels[name] = value
		return err
	}, `select name, value from session_labels where namespace = $1 and session = $2`, e.Namespace, e.Session)
}

func (t *Tx) readPhases(e *session.Execution) error {
	at := map[string]int{}
	if err := t.each(func(r *sql.Rows) error {
		p := session.PhaseStatus{}
		err := r.Scan(&p.Name, &p.Status, &p.SentBack)
		at[p.Name] = len(e.Phases)
		e.Phases = append(e.Phases, p)
		return err
	}, `select phase, state, exists (select 1 from assignments a where a.namespace = p.namespace and a.session = p.session
			and a.phase = p.phase and a.undone = 'sent_back')
		from phases p where namespace = $1 and session = $2 order by position`,
		e.Namespace, e.Session); err != nil {
		return err
	}
	return t.each(func(r *sql.Rows) error {
		var phase string
		var a session.AssignmentStatus
		err := r.Scan(&phase, &a.Persona, &a.Status, &a.Agent, &a.Rounds, &a.Attempts, &a.LostWorkers, document{&a.Failures},
			&a.Summary, &a.Files,
			document{&a.Dropped}, document{&a.LeftOut}, document{&a.Awaits})
		if i, ok := at[phase]; ok {
			e.Phases[i].Assignments = append(e.Phases[i].Assignments, a)
		}
		return err
	}, `select phase, persona, state, substitute, rounds, attempts, lost_workers, failed, summary, files, dropped, left_out, awaits
		from outcomes where namespace = $1 and session = $2 order by phase, position`, e.Namespace, e.Session)
}

func (t *Tx) readRequests(e *session.Execution) error {
	rows, err := query[requestRow](t, `select `+columnsOf(new(requestRow)).names()+` from requests
		where namespace = $1 and session = $2 and position > 0 order by position`, e.Namespace, e.Session)
	for _, r := range rows {
		e.Help = append(e.Help, r.Request)
	}
	return err
}

func (t *Tx) readAlerts(e *session.Execution) error {
	rows, err := query[alertRow](t, `select `+columnsOf(new(alertRow)).names()+` from alerts
		where namespace = $1 and session = $2 order by at, rule`, e.Namespace, e.Session)
	for _, r := range rows {
		e.Alerts = append(e.Alerts, r.Detail)
	}
	return err
}
