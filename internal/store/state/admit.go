package state

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Admission is a Temporal run that wants to work on a session.
type Admission struct {
	session.Key
	// TemporalRun is the id of the run; a repeated admission finds its own row by it. OriginalRun is that of the run which a
	// Temporal reset follows; else TemporalRun.
	TemporalRun, OriginalRun string
	Team                     string
	// TeamDigest is that of the resolved team.
	TeamDigest string
	// Requirement is the text.
	Requirement string
	// Workspace is the manifest that the session starts from.
	Workspace string
	// Selection is the part of the team's work that the session does.
	Selection session.Course
	// Base is the checkpoint that the run continues.
	Base     string
	ReportTo string
	// Caps are the team's limits, as [budget.Caps] lists them.
	Caps []budget.Budget
	// Continues: the session continues as new, with what it was started with.
	Continues bool
}

// Admit gives a Temporal run its number, makes it the only one that may write, and sets the session's limits. The error is
// [ErrFenced] if a later run was admitted.
func (d *DB) Admit(ctx context.Context, a Admission) (run int64, err error) {
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		if err := t.insertSession(a.Key, a.Team, a.Requirement, now); err != nil {
			return err
		}
		newest, known, err := t.runs(a.Key, a.TemporalRun)
		if err != nil {
			return err
		}
		run = known.run
		switch {
		case run != 0 && run != newest:
			return fenced(a.Key, run, newest)
		case run == 0:
			run = newest + 1
			if err := t.insertRun(a, run, newest, now); err != nil {
				return err
			}
		}
		return t.setCaps(a.Key, a.Team, a.Caps)
	})
	return run, err
}

func (t *Tx) insertRun(a Admission, run, newest, now int64) error {
	first := run
	if a.Continues {
		if err := t.row(`select coalesce(max(first), $4) from runs where namespace = $1 and session = $2 and run = $3`,
			a.Namespace, a.Session, newest, run).
			Scan(&first); err != nil {
			return err
		}
	}
	if _, err := t.exec(`insert into runs (namespace, session, run, temporal_run, original_run, first, base, team_digest,
			selection, plan, started_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'null', $10)`,
		a.Namespace, a.Session, run, a.TemporalRun, a.OriginalRun, first, a.Base, a.TeamDigest, jsonOf(a.Selection), now); err != nil {
		return err
	}
	set, args := `run = $3`, []any{a.Namespace, a.Session, run}
	if !a.Continues {
		set, args = set+`, workspace = $4, report_to = $5`, append(args, a.Workspace, a.ReportTo)
		if a.Requirement != "" { // else a restored database has lost the session, which goes on
			text, search := shownOf(a.Key, a.Requirement)
			set, args = set+`, requirement = $6, search = $7`, append(args, text, search)
		}
	}
	_, err := t.exec(`update sessions set `+set+` where namespace = $1 and session = $2`, args...)
	return err
}

// shownOf is how much of a requirement a row has, and the text in which sessions are searched.
func shownOf(s session.Key, requirement string) (text, search string) {
	text = textfmt.Shorten(requirement, maxRequirement)
	return text, strings.ToLower(s.Session + "\n" + text)
}

// insertSession makes the row of a session, if there is none. requirement is the text or its beginning.
func (t *Tx) insertSession(s session.Key, team, requirement string, now int64) error {
	text, search := shownOf(s, requirement)
	_, err := t.exec(`insert into sessions (namespace, session, team, requirement, search, workspace, decisions, status,
			reason, revision, mirrored, run, boundary_at, temporal_run, first_run, forked_from, forked_at, report_to, started_by,
			started_by_id, via, started_at, updated_at)
		values ($1, $2, $3, $4, $5, '', '{}', 'admitted', '', 0, 0, 0, 0, '', '', '', '', '', '', '', '', $6, $6)
		on conflict (namespace, session) do nothing`,
		s.Namespace, s.Session, team, text, search, now)
	return err
}

// maxRequirement is how much of a requirement a row has, in bytes.
const maxRequirement = 2000

// runNumbers is a run of a session, and the first of those that continue each other as new up to it.
type runNumbers struct {
	run, first int64
	// reset: a Temporal reset has made the first of them.
	reset bool
}

// Enter is the number of a Temporal run of a session, by which its executors are fenced. A Temporal reset makes a run that
// was not admitted: it continues the newest one, and becomes the only one that may write. The error is [ErrFenced] if a later
// run was admitted, and [ErrNotFound] if the session was not.
func (d *DB) Enter(ctx context.Context, s session.Key, temporalRun string) (run int64, err error) {
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		e, err := t.enter(s, temporalRun, now)
		run = e.run
		return err
	})
	return run, err
}

func (t *Tx) enter(s session.Key, temporalRun string, now int64) (runNumbers, error) {
	newest, known, err := t.runs(s, temporalRun)
	switch {
	case err != nil:
		return runNumbers{}, err
	case newest == 0:
		return runNumbers{}, fmt.Errorf("session %s was not admitted: %w", s.Session, ErrNotFound)
	case known.run == newest:
		return known, nil
	case known.run != 0:
		return runNumbers{}, fenced(s, known.run, newest)
	}
	run := newest + 1
	if _, err := t.exec(`insert into runs (namespace, session, run, temporal_run, original_run, first, base, team_digest,
			selection, plan, started_at)
		select namespace, session, $3, $4, original_run, $3, base, team_digest, selection, plan, $5 from runs
		where namespace = $1 and session = $2 and run = $6`, s.Namespace, s.Session, run, temporalRun, now, newest); err != nil {
		return runNumbers{}, err
	}
	_, err = t.exec(`update sessions set run = $3 where namespace = $1 and session = $2`, s.Namespace, s.Session, run)
	return runNumbers{run, run, true}, err
}

// runs are the number of the newest run of a session, and the run with a Temporal id; zero if there is none. The session's
// row is locked.
func (t *Tx) runs(s session.Key, temporalRun string) (newest int64, known runNumbers, err error) {
	err = t.row(`select run from sessions where namespace = $1 and session = $2`+t.lockRows, s.Namespace, s.Session).Scan(&newest)
	if err != nil {
		return 0, known, err
	}
	err = t.row(`select r.run, r.first, case when f.temporal_run <> f.original_run then 1 else 0 end from runs r
		join runs f on f.namespace = r.namespace and f.session = r.session and f.run = r.first
		where r.namespace = $1 and r.session = $2 and r.temporal_run = $3`,
		s.Namespace, s.Session, temporalRun).Scan(&known.run, &known.first, &known.reset)
	if isNoRows(err) {
		err = nil
	}
	return newest, known, err
}

// IsFenced reports whether a session has a later run than a Temporal run.
func (d *DB) IsFenced(ctx context.Context, s session.Key, temporalRun string) (later bool, err error) {
	err = d.Read(ctx, func(t *Tx) error {
		return t.row(`select case when r.run < s.run then 1 else 0 end from sessions s
			join runs r on r.namespace = s.namespace and r.session = s.session and r.temporal_run = $3
			where s.namespace = $1 and s.session = $2`, s.Namespace, s.Session, temporalRun).Scan(&later)
	})
	if errors.Is(err, ErrNotFound) { // it is not admitted, or was reset and has yet to enter
		return false, nil
	}
	return later, err
}

func fenced(s session.Key, run, newest int64) error {
	return fmt.Errorf("run %d of session %s; the newest is %d: %w", run, s.Session, newest, ErrFenced)
}
