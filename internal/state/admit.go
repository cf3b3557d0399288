package state

import (
	"context"
	"fmt"
	"strings"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Admission is a Temporal run that wants to work on a session.
type Admission struct {
	session.Key
	// TemporalRun is the id of the run. A repeated admission finds its own row by it.
	TemporalRun string
	Team        string
	// TeamDigest and TeamFile are those of the resolved team and of the file as it was written.
	TeamDigest, TeamFile string
	// Requirement is the text; empty if the session continues as new with what it was started with.
	Requirement string
	// Workspace is the manifest that the session starts from.
	Workspace string
	// Source, Given, Selection and Plan are json.
	Source, Given, Selection, Plan string
	// Base is the checkpoint that the run continues; ForkedFrom that of another session.
	Base, ForkedFrom string
	ReportTo         string
	StartedBy        string
	StartedByID      string
	Via              string
	// Caps are the team's limits, as [budget.Caps] lists them.
	Caps []budget.Budget
}

// Admit gives a Temporal run its number, makes it the only one that may write, and sets the session's limits.
func (d *DB) Admit(ctx context.Context, a Admission) (run int64, err error) {
	err = d.Write(ctx, func(t *Tx) error {
		now, err := t.Now()
		if err != nil {
			return err
		}
		if err := t.insertSession(a.Key, a.Team, a.Requirement, now); err != nil {
			return err
		}
		var newest int64
		if err := t.row(`select run from sessions where namespace = $1 and session = $2`+t.lockRows, a.Namespace, a.Session).Scan(&newest); err != nil {
			return err
		}
		err = t.row(`select run from runs where namespace = $1 and session = $2 and temporal_run = $3`, a.Namespace, a.Session, a.TemporalRun).Scan(&run)
		switch {
		case err == nil && run == newest: // a repetition
			return t.setCaps(a.Key, a.Team, a.Caps)
		case err == nil:
			return fmt.Errorf("run %d of session %s; the newest is %d: %w", run, a.Session, newest, ErrFenced)
		case !isNoRows(err):
			return err
		}
		run = newest + 1
		if _, err := t.exec(`insert into runs (namespace, session, run, temporal_run, base, team_digest, team_file, selection, plan, started_by, started_at)
			values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
			a.Namespace, a.Session, run, a.TemporalRun, a.Base, a.TeamDigest, a.TeamFile, a.Selection, a.Plan, a.StartedBy, now); err != nil {
			return err
		}
		if _, err := t.exec(`update sessions set run = $3, team = $4, status = 'admitted', reason = '', ended_at = null where namespace = $1 and session = $2`,
			a.Namespace, a.Session, run, a.Team); err != nil {
			return err
		}
		if a.Requirement != "" { // else the session continues as new, with what it has
			if err := t.start(a); err != nil {
				return err
			}
		}
		return t.setCaps(a.Key, a.Team, a.Caps)
	})
	return run, err
}

// start writes what a session is started or resumed with.
func (t *Tx) start(a Admission) error {
	if err := t.setRequirement(a.Key, a.Requirement); err != nil {
		return err
	}
	_, err := t.exec(`update sessions set workspace = $3, source = $4, given = $5, forked_from = $6, report_to = $7, started_by = $8, started_by_id = $9, via = $10
		where namespace = $1 and session = $2`,
		a.Namespace, a.Session, a.Workspace, a.Source, a.Given, a.ForkedFrom, a.ReportTo, a.StartedBy, a.StartedByID, a.Via)
	return err
}

// insertSession makes the row of a session, if there is none. requirement is the text or its beginning.
func (t *Tx) insertSession(s session.Key, team, requirement string, now int64) error {
	requirement = textfmt.Shorten(requirement, maxRequirement)
	_, err := t.exec(`insert into sessions (namespace, session, team, requirement, search, workspace, source, given, status, reason, phases, revision, run,
			boundary_at, temporal_run, first_run, forked_from, report_to, started_by, started_by_id, via, started_at, updated_at)
		values ($1, $2, $3, $4, $5, '', '{}', '{}', 'admitted', '', '', 0, 0, 0, '', '', '', '', '', '', '', $6, $6) on conflict (namespace, session) do nothing`,
		s.Namespace, s.Session, team, requirement, strings.ToLower(s.Session+"\n"+requirement), now)
	return err
}

// maxRequirement is how much of a requirement a row has, in bytes.
const maxRequirement = 2000

// Enter is the number of a Temporal run of a session, by which its executors are fenced. A Temporal reset makes a run that
// was not admitted: it continues the newest one, and becomes the only one that may write. The error is [ErrFenced] if a later
// run was admitted, and [ErrNotFound] if the session was not.
//
// since is the number of the Temporal run original, after which the session may have continued as new; run, if it is not
// known.
func (d *DB) Enter(ctx context.Context, s session.Key, temporalRun, original string) (run, since int64, err error) {
	err = d.Write(ctx, func(t *Tx) error {
		var err error
		if run, err = t.enter(s, temporalRun); err != nil {
			return err
		}
		err = t.row(`select run from runs where namespace = $1 and session = $2 and temporal_run = $3`, s.Namespace, s.Session, original).Scan(&since)
		if isNoRows(err) {
			since, err = run, nil
		}
		return err
	})
	return run, since, err
}

func (t *Tx) enter(s session.Key, temporalRun string) (run int64, err error) {
	var newest int64
	if err := t.row(`select run from sessions where namespace = $1 and session = $2`+t.lockRows, s.Namespace, s.Session).Scan(&newest); err != nil {
		return 0, err
	}
	err = t.row(`select run from runs where namespace = $1 and session = $2 and temporal_run = $3`, s.Namespace, s.Session, temporalRun).Scan(&run)
	switch {
	case err == nil && run != newest:
		return 0, fmt.Errorf("run %d of session %s; the newest is %d: %w", run, s.Session, newest, ErrFenced)
	case !isNoRows(err):
		return run, err
	}
	now, err := t.Now()
	if err != nil {
		return 0, err
	}
	run = newest + 1
	if _, err := t.exec(`insert into runs (namespace, session, run, temporal_run, base, team_digest, team_file, selection, plan, started_by, started_at)
		select namespace, session, $3, $4, base, team_digest, team_file, selection, plan, started_by, $5 from runs
		where namespace = $1 and session = $2 and run = $6`, s.Namespace, s.Session, run, temporalRun, now, newest); err != nil {
		return 0, err
	}
	_, err = t.exec(`update sessions set run = $3 where namespace = $1 and session = $2`, s.Namespace, s.Session, run)
	return run, err
}
