package state

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
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
func classed(class, cause error) error { return fmt.Errorf("%w: %w", class, cause) }

// classify wraps an error of a driver with its class.
func classify(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case isNoRows(err):
		return classed(ErrNotFound, err)
	case strings.Contains(err.Error(), "sql: Scan error"): // the value has another type than its column
		return classed(ErrDamaged, err)
	}
	switch sqliteCode(err) {
	case sqlite3.SQLITE_FULL:
		return classed(ErrUnavailable, errors.Join(err, syscall.ENOSPC))
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM,
		sqlite3.SQLITE_READONLY:
		return classed(ErrUnavailable, err)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return classed(ErrDamaged, err)
	}
	if isLost(err) {
		return classed(ErrUnavailable, err)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code[:2] {
		case "53", "57", "58": // resources, operator, system
			return classed(ErrUnavailable, err)
		case "XX": // internal: among others a damaged page
			return classed(ErrDamaged, err)
		}
	}
	return err
}

// isLost reports whether PostgreSQL could not be reached, or has ended the connection.
func isLost(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		// connection, a server that starts or ends, and one that has waited for too long in a transaction
		return pg.Code[:2] == "08" || strings.HasPrefix(pg.Code, "57P") || pg.Code == "25P03"
	}
	_, network := errors.AsType[net.Error](err)
	_, connect := errors.AsType[*pgconn.ConnectError](err)
	return network || connect || errors.Is(err, sql.ErrConnDone) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
}

// sqliteCode is SQLite's primary code of an error; 0 if it is not one of SQLite.
func sqliteCode(err error) int {
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		return lite.Code() & 0xff // the rest is an extended code
	}
	return sqlite3.SQLITE_OK
}

func isNoRows(err error) bool { return errors.Is(err, sql.ErrNoRows) }

// conflicts reports whether PostgreSQL has ended the transaction for the sake of another one: it can be repeated.
func conflicts(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == "40001" || pg.Code == "40P01")
}

// isThere reports whether a table cannot be made because there is one.
func isThere(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code == "42P07"
	}
	lite, ok := errors.AsType[*sqlite.Error](err)
	return ok && strings.HasSuffix(lite.Error(), "already exists (1)")
}
