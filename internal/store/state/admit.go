package state

import (
	"context"
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
