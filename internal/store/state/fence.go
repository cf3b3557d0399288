package state

import (
	"context"
	"errors"
	"fmt"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// Fence names the execution that writes: the session's run, and the holder of the assignment; empty: any.
type Fence struct {
	Run    int64
	Holder string
}

// fence refuses a writer that has been replaced. The rows stay as they are until the transaction ends.
func (t *Tx) fence(a Assignment, f Fence) error {
	var one int
	err := t.row(`select 1 from sessions where namespace = $1 and session = $2 and run = $3`+t.shareRows,
		a.Namespace, a.Session, f.Run).Scan(&one)
	if err == nil && f.Holder != "" {
		err = t.row(`select 1 from assignments
			where namespace = $1 and session = $2 and phase = $3 and persona = $4 and holder = $5`+t.shareRows,
			a.Namespace, a.Session, a.Phase, a.Persona, f.Holder).Scan(&one)
	}
	if isNoRows(err) {
		return fmt.Errorf("session %s, run %d, holder %q: %w", a.Session, f.Run, f.Holder, ErrFenced)
	}
	return err
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

// runNumbers is a run of a session, and the first of those that continue each other as new up to it.
type runNumbers struct {
	run, first int64
	// reset: a Temporal reset has made the first of them.
	reset bool
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
