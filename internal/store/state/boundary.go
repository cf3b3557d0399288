package state

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Boundary is what a session's workflow writes between two steps of its work.
type Boundary struct {
	session.Key
	// TemporalRun is the run that writes it, and FirstRun the first of those that continue each other as new.
	TemporalRun, FirstRun string
	// At is the workflow's time. A boundary before the newest one changes nothing.
	At time.Time
	// Status is the session's status. Its costs are not written: they are sums over calls. Without decisions the stored
	// ones stay.
	Status session.Status
	// Checkpoint is the row of the boundary's checkpoint, whose blob is stored; nil if it has none. Its run is set here.
	Checkpoint *Checkpoint
	// Answers are the answers of people that the session has applied.
	Answers []session.Answer
	// Undone are phases whose work counts no more.
	Undone []string
}

// PutBoundary writes a boundary in one transaction: the session's status with its phases, assignments, requests and alerts,
// applied answers, and what was sent back. late reports that a later boundary was written before, and that nothing was
// changed. opened are the requests that are new. The error is [ErrFenced] if a later run was admitted, and [ErrNotFound] if
// the session was not.
func (d *DB) PutBoundary(ctx context.Context, b Boundary) (opened []session.Request, late bool, err error) {
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		opened, late = nil, false
		run, err := t.enter(b.Key, b.TemporalRun, now)
		if err != nil {
			return err
		}
		var boundary int64
		if err := t.row(`select boundary_at from sessions where namespace = $1 and session = $2`,
			b.Namespace, b.Session).Scan(&boundary); err != nil {
			return err
		}
		if b.Checkpoint != nil {
			c := *b.Checkpoint
			c.Run = run.run
			if err := t.putCheckpoint(c); err != nil {
				return err
			}
		}
		if late = micros(b.At) < boundary; late {
			return nil
		}
		for _, phase := range b.Undone {
			if err := t.undo(b.Key, phase, "", session.UndoneSentBack); err != nil {
				return err
			}
		}
		known, err := t.texts(`select id from requests where namespace = $1 and session = $2`, b.Namespace, b.Session)
		if err != nil {
			return err
		}
		for _, r := range b.Status.Help {
			if !slices.Contains(known, r.ID) {
				opened = append(opened, r)
			}
		}
		if err := t.putStatus(b, run.run, now); err != nil {
			return err
		}
		return t.changed(b.Key)
	})
	return opened, late, err
}

// putCheckpoint writes the row of a checkpoint. A repeated boundary has the same row; if it is decided differently this time, as
// an admission may be, the row gets the new checkpoint while it is the newest. A checkpoint of an earlier run, or of an earlier
// boundary, changes nothing.
func (t *Tx) putCheckpoint(c Checkpoint) error {
	var run, before int64
	if err := t.row(`select run from sessions where namespace = $1 and session = $2`+t.lockRows,
		c.Namespace, c.Session).Scan(&run); err != nil {
		return err
	}
	// A checkpoint comes after the one that it continues, also if both have the same workflow time.
	err := t.row(`select boundary_at + 1 from checkpoints where namespace = $1 and session = $2 and run = $3 and digest = $4`,
		c.Namespace, c.Session, c.Run, c.Previous).Scan(&before)
	if err != nil && !isNoRows(err) {
		return err
	}
	c.BoundaryAt = max(c.BoundaryAt, before)
	_, err = t.exec(`insert into checkpoints (namespace, session, run, boundary_at, phase, digest, previous, tree)
		select $1, $2, $3, $4, $5, $6, $7, $8 where not exists (
			select 1 from checkpoints where namespace = $1 and session = $2 and (run > $3 or run = $3 and boundary_at > $4))
		on conflict (namespace, session, run, boundary_at) do update
			set phase = excluded.phase, digest = excluded.digest, previous = excluded.previous, tree = excluded.tree,
				mirrored_at = null
			where checkpoints.digest <> excluded.digest`,
		c.Namespace, c.Session, c.Run, c.BoundaryAt, c.Phase, c.Digest, c.Previous, c.Tree)
	if err != nil {
		return fmt.Errorf("write a checkpoint of session %s: %w", c.Session, err)
	}
	return nil
}

func (t *Tx) putStatus(b Boundary, run, now int64) error {
	s := b.Status
	started := b.At
	if s.StartedAt != nil {
		started = *s.StartedAt
	}
	var origin session.Origin
	if s.Origin != nil {
		origin = *s.Origin
	}
	_, err := t.exec(`update sessions set team = $3, status = $4, reason = $5, revision = revision + 1, boundary_at = $6,
			temporal_run = $7, first_run = $8, forked_from = $9, forked_at = $10, started_by = $11, started_by_id = $12, via = $13, started_at = $14,
			ended_at = $15, updated_at = $16, decisions = case when $17 = 'null' then decisions else $17 end
		where namespace = $1 and session = $2`,
		b.Namespace, b.Session, s.Team, string(cmp.Or(s.Status, session.Admitted)), textfmt.Shorten(s.Reason, session.MaxMessage),
		micros(b.At), b.TemporalRun, b.FirstRun, origin.Session, string(origin.Checkpoint), s.StartedBy, s.StartedByID, s.StartedOver,
		micros(started), optional{&s.ClosedAt}, now, jsonOf(s.Decisions))
	if err != nil {
		return err
	}
	if s.Plan != nil {
		if _, err := t.exec(`update runs set plan = $4 where namespace = $1 and session = $2 and run = $3`,
			b.Namespace, b.Session, run, jsonOf(s.Plan)); err != nil {
			return err
		}
	}
	for _, write := range []func(Boundary) error{t.putLabels, t.putPhases, t.putRequests, t.putAnswers, t.putAlerts} {
		if err := write(b); err != nil {
			return err
		}
	}
	return nil
}

// labelRow is a row of session_labels.
type labelRow struct {
	session.Key
	Name, Value string
}

func (t *Tx) putLabels(b Boundary) error {
	if _, err := t.exec(`delete from session_labels where namespace = $1 and session = $2`, b.Namespace, b.Session); err != nil {
		return err
	}
	for name, value := range b.Status.Labels {
		if err := t.insert("session_labels", columnsOf(&labelRow{b.Key, name, value})); err != nil {
			return err
		}
	}
	return nil
}

// putPhases writes the phases, and what the workflow says of their assignments. Both have the order of the team file.
func (t *Tx) putPhases(b Boundary) error {
	for _, table := range []string{"phases", "outcomes"} {
		if _, err := t.exec(`delete from `+table+` where namespace = $1 and session = $2`, b.Namespace, b.Session); err != nil {
			return err
		}
	}
	for i, p := range b.Status.Phases {
		if _, err := t.exec(`insert into phases (namespace, session, phase, position, state) values ($1, $2, $3, $4, $5)`,
			b.Namespace, b.Session, p.Name, i, string(p.Status)); err != nil {
			return err
		}
		for j, a := range p.Assignments {
			if err := t.putOutcome(Assignment{b.Key, spec.AssignmentID{Phase: p.Name, Persona: a.Persona}}, j, a); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Tx) putOutcome(of Assignment, position int, a session.AssignmentStatus) error {
	_, err := t.exec(`insert into outcomes (namespace, session, phase, persona, position, state, substitute, rounds, attempts,
			failures, lost_workers,
			failed, summary, files, dropped, left_out, awaits, agent, model)
		select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, coalesce(max(agent), $7),
			coalesce(max(model), '') from (
			select agent, model from calls where namespace = $1 and session = $2 and phase = $3 and persona = $4 order by begun_at desc, id limit 1) c`,
		of.Namespace, of.Session, of.Phase, of.Persona, position, string(a.Status), a.Agent, a.Rounds, a.Attempts,
		session.CountedAttempts(a.Failures),
		a.LostWorkers, jsonOf(session.LastFailures(a.Failures)), a.Summary, a.Files, jsonOf(a.Dropped), jsonOf(a.LeftOut),
		jsonOf(a.Awaits))
	return err
}

// requestRow is a row of requests.
type requestRow struct {
	session.Key
	session.Request
	ClosedAt time.Time
	Position int
}

// putRequests writes the open requests, and closes the others.
func (t *Tx) putRequests(b Boundary) error {
	at := micros(b.At)
	if _, err := t.exec(`update requests set closed_at = coalesce(closed_at, $3), position = 0 where namespace = $1 and session = $2 and position > 0`,
		b.Namespace, b.Session, at); err != nil {
		return err
	}
	for i, h := range b.Status.Help {
		row := requestRow{Key: b.Key, Request: h, Position: i + 1}
		row.Message = textfmt.Shorten(h.Message, session.MaxMessage)
		if len(h.Actions) == 0 || b.Status.Status.Closed() { // nobody is asked
			row.ClosedAt = b.At
		}
		if err := t.put("requests", "namespace, session, id", columnsOf(&row), "true"); err != nil {
			return err
		}
	}
	return nil
}

// alertRow is a row of alerts. The detail has what no statement looks for.
type alertRow struct {
	session.Key
	Rule   string
	Detail session.Alert
	At     time.Time
}

func (t *Tx) putAlerts(b Boundary) error {
	for _, a := range b.Status.Alerts {
		if err := t.put("alerts", "namespace, session, rule", columnsOf(&alertRow{b.Key, a.Rule, a, a.At}), "true"); err != nil {
			return err
		}
	}
	return nil
}

// putAnswers writes the answers that a session has applied. A repetition changes nothing.
func (t *Tx) putAnswers(b Boundary) error {
	for _, a := range b.Answers {
		if _, err := t.exec(`insert into answers (namespace, session, request, person, at, action, files, opened_at)
			values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (namespace, session, request, person, at) do nothing`,
			b.Namespace, b.Session, a.Request, cmp.Or(a.Person, a.By), micros(a.At), string(a.Action), string(a.Files),
			moment{&a.Since}); err != nil {
			return err
		}
	}
	return nil
}

// SetMirrored notes that the mirror has a revision of a session's status, and its checkpoints up to the first of these.
func (d *DB) SetMirrored(ctx context.Context, s session.Key, revision int64, newest ...Checkpoint) error {
	return d.writeAt(ctx, func(t *Tx, now int64) error {
		if _, err := t.exec(`update sessions set mirrored = $3 where namespace = $1 and session = $2`,
			s.Namespace, s.Session, revision); err != nil || len(newest) == 0 {
			return err
		}
		_, err := t.exec(`update checkpoints set mirrored_at = $5
			where namespace = $1 and session = $2 and (run < $3 or run = $3 and boundary_at <= $4) and mirrored_at is null
				and exists (select 1 from checkpoints c where c.namespace = $1 and c.session = $2 and c.run = $3 and c.boundary_at = $4 and c.digest = $6)`,
			s.Namespace, s.Session, newest[0].Run, newest[0].BoundaryAt, now, newest[0].Digest)
		return err
	})
}

// jsonOf is a value as JSON text. What is stored that way always has one.
func jsonOf(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return string(data)
}

// micros is a time in microseconds; zero for the zero time.
func micros(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMicro()
}
