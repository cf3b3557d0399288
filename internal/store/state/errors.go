package state

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// The errors that callers tell apart. Each wraps its cause.
var (
	// ErrUnavailable means that the database cannot be reached, is busy, or has no space. Callers wait
	// and try again. The outcome of a transaction whose commit failed this way is not known.
	ErrUnavailable = errors.New("the database is not available")
	// ErrDamaged means that the database file is damaged. Nothing is written any more, until a backup is put in its place.
	ErrDamaged = errors.New("the database is damaged; stop all processes, and run `maestro restore` with a backup")
	// ErrFenced means that a later run, or a later holder of the lease, has taken over. Nothing was changed.
	ErrFenced = session.ErrFenced
	// ErrNotFound means that there is no such row.
	ErrNotFound = session.ErrNotFound
)

// classed is an error with its class.
type classed struct{ class, cause error }

func (e *classed) Error() string   { return e.class.Error() + ": " + e.cause.Error() }
func (e *classed) Unwrap() []error { return []error{e.class, e.cause} }

// classify wraps an error of a driver with its class.
func classify(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case isNoRows(err):
		return &classed{ErrNotFound, err}
	case strings.Contains(err.Error(), "sql: Scan error"): // the value has another type than its column
		return &classed{ErrDamaged, err}
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		switch lite.Code() & 0xff { // the rest is an extended code
		case sqlite3.SQLITE_FULL:
			return &classed{ErrUnavailable, errors.Join(err, syscall.ENOSPC)}
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY:
			return &classed{ErrUnavailable, err}
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
			return &classed{ErrDamaged, err}
		}
		return err
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code[:2] {
		case "08", "53", "57", "58": // connection, resources, operator, system
			return &classed{ErrUnavailable, err}
		case "XX": // internal: among others a damaged page
			return &classed{ErrDamaged, err}
		}
		return err
	}
	var network net.Error
	var connect *pgconn.ConnectError
	if errors.As(err, &network) || errors.As(err, &connect) || errors.Is(err, sql.ErrConnDone) || pgconn.SafeToRetry(err) {
		return &classed{ErrUnavailable, err}
	}
	return err
}

func isNoRows(err error) bool { return errors.Is(err, sql.ErrNoRows) }

// conflicts reports whether PostgreSQL has ended the transaction for the sake of another one: it can be repeated.
func conflicts(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01")
}

// full reports whether the disk of a SQLite database is full.
func full(err error) bool {
	var lite *sqlite.Error
	return errors.As(err, &lite) && lite.Code()&0xff == sqlite3.SQLITE_FULL
}

// busy reports whether another process writes the SQLite database.
func busy(err error) bool {
	var lite *sqlite.Error
	return errors.As(err, &lite) && lite.Code()&0xff == sqlite3.SQLITE_BUSY
}

// isThere reports whether a table cannot be made because there is one.
func isThere(err error) bool {
	var lite *sqlite.Error
	var pg *pgconn.PgError
	return errors.As(err, &lite) && strings.HasSuffix(lite.Error(), "already exists (1)") || errors.As(err, &pg) && pg.Code == "42P07"
}
