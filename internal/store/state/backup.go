package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// ErrRestored means that a backup was restored after this process had opened the database. Nothing was changed.
var ErrRestored = errors.New("a backup was restored after this process had opened the database; restart this process")

// CopyTo copies a SQLite database, as it is at one moment, to a new file. Other processes may write meanwhile.
func (d *DB) CopyTo(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600) // SQLite takes an empty file
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only flushed
	own, err := openFile(d.path, writing(), 1)
	if err != nil {
		return err
	}
	defer own.Close() //nolint:errcheck // it has changed nothing
	if _, err := own.ExecContext(ctx, "vacuum into $1", path); err != nil {
		return classify(ctx, fmt.Errorf("copy the database: %w", err))
	}
	return f.Sync()
}

// BeginGeneration makes the database that of a restored backup: processes that have opened an earlier generation change
// nothing any more. The number is not taken from the backup alone, which may be restored twice. The mirror that is there may be
// another's. Temporal may be ahead of the backup, so each session that has not ended is due for a new run.
func (d *DB) BeginGeneration(ctx context.Context) error {
	return d.writeAt(ctx, func(t *Tx, now int64) error {
		if _, err := t.exec(`update installation set generation = case when generation < $1 then $1 else generation + 1 end`,
			now); err != nil {
			return err
		}
		if _, err := t.exec(`update sessions set mirrored = -1 where revision > 0`); err != nil {
			return err
		}
		_, err := t.exec(`update sessions set restart_at = $1 where status not in (`+closedStates+`)`, now)
		return err
	})
}

// ClaimRestart returns a session of a namespace that is due for a new run since a backup was restored. No other worker gets
// it for a while. The session is empty if none is due now, and pending is false if none will be.
func (d *DB) ClaimRestart(ctx context.Context, namespace string, claim time.Duration) (session string, pending bool, err error) {
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		err := t.row(`update sessions set restart_at = $2 where namespace = $1 and session = (
				select session from sessions where namespace = $1 and restart_at <= $3 order by restart_at, session limit 1`+t.lockRows+`)
			returning session`, namespace, now+claim.Microseconds(), now).Scan(&session)
		if !isNoRows(err) {
			pending = true
			return err
		}
		return t.row(`select exists (select 1 from sessions where namespace = $1 and restart_at is not null)`, namespace).Scan(&pending)
	})
	return session, pending, err
}

// EndRestart says that the new run of a session was started, or that none can be.
func (d *DB) EndRestart(ctx context.Context, s session.Key) error {
	return d.exec(ctx, `update sessions set restart_at = null where namespace = $1 and session = $2`, s.Namespace, s.Session)
}

// sameGeneration refuses a change by a process that opened the database before a backup was restored.
func (t *Tx) sameGeneration(opened int64) error {
	generation, err := t.generation()
	if err != nil || generation == opened {
		return err
	}
	return classed(ErrUnavailable, ErrRestored)
}

// generation is that of the installation. A database without it is damaged.
func (t *Tx) generation() (int64, error) {
	var g sql.Null[int64]
	err := t.row(`select generation from installation`).Scan(&g)
	if isNoRows(err) || err == nil && !g.Valid {
		return 0, fmt.Errorf("%w: the installation has no generation", ErrDamaged)
	}
	return g.V, err
}

// HasSessions reports whether there is any session.
func (d *DB) HasSessions(ctx context.Context) (some bool, err error) {
	err = d.Read(ctx, func(t *Tx) error { return t.row(`select exists (select 1 from sessions)`).Scan(&some) })
	return some, err
}

// OpenSessions lists the sessions that have not ended, the newest first.
func (d *DB) OpenSessions(ctx context.Context) ([]session.Key, error) {
	return list[session.Key](ctx, d, "sessions", `where status not in (`+closedStates+`) order by started_at desc, session`)
}

// SQLite's connections to a database with a write-ahead log hold a lock of this byte of the file with the shared memory.
const connectedByte = 128

// UsedBy returns the id of a process that has the SQLite database in a directory open; 0 if there is none.
func UsedBy(dir string) (pid int, err error) {
	f, err := os.OpenFile(filepath.Join(dir, FileName+"-shm"), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // only looked at
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: connectedByte, Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock); err != nil || lock.Type == unix.F_UNLCK {
		return 0, err
	}
	return int(lock.Pid), nil
}
