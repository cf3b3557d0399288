package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// The limits of connections to PostgreSQL.
const (
	// connectLimit bounds the making of a connection, unless the URL has connect_timeout.
	connectLimit = 10 * time.Second
	// connectionAge is after how long a connection is replaced: the server may have been moved meanwhile.
	connectionAge = 30 * time.Minute
	// connections is how many are open at a time.
	connections = 2 * readers
)

// microseconds is PostgreSQL's clock.
const microseconds = `(extract(epoch from clock_timestamp()) * 1000000)::bigint`

// boundIdle bounds how long PostgreSQL waits for the next statement of a transaction. The locks of a host that is stopped, or
// whose packets are lost, would else last for hours, as its connection does.
const boundIdle = `set_config('idle_in_transaction_session_timeout', '10s', true)`

var postgresEngine = engine{
	lockRows:   " for update",
	shareRows:  " for share",
	lockSchema: "select pg_advisory_xact_lock(7305808869231650425)", // "maestro" in ASCII
	day:        "to_char(to_timestamp(s.started_at / 1000000) at time zone 'UTC', 'YYYY-MM-DD')",
	lockTable:  "lock table %s in exclusive mode",
	now:        "select " + microseconds,
	limit:      time.Minute,
	bound:      "select " + boundIdle,
	snapshot:   sql.LevelRepeatableRead,
}

// OpenPostgres opens a PostgreSQL database by its connection URL, and makes or migrates its tables. What the URL does not have
// comes from libpq's variables, like PGPASSWORD and PGPASSFILE.
func OpenPostgres(ctx context.Context, address string) (*DB, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("read the database's URL: %w", err) // the error does not have the password
	}
	// No statement is prepared: a connection pooler may give each transaction another connection.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectLimit
	}
	pool := stdlib.OpenDB(*config)
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	pool.SetConnMaxLifetime(connectionAge)
	pool.SetConnMaxIdleTime(time.Minute)
	return open(ctx, &DB{engine: postgresEngine, write: pool, read: pool})
}

// lostFor is how long a transaction whose connection was lost is repeated. A caller with more patience tries again itself.
const lostFor = 5 * time.Second

// errCommitted ends the repetition of a transaction that has committed before.
var errCommitted = errors.New("the transaction has committed; its reply was lost")

// beginWrite notes in a transaction that it commits. The error is [errCommitted] if one with this id has committed. The insert
// waits for one that has not ended: no transaction of a lost connection commits after it was repeated.
func (t *Tx) beginWrite(id string, opened int64) error {
	var generation, schema, inserted int64
	var bound string
	err := t.row(`with w as (insert into writes (id, at) values ($1, `+microseconds+`)
			on conflict do nothing returning 1)
		select generation, (select max(version) from migrations), (select count(*) from w),
			`+microseconds+`, `+boundIdle+` from installation`, id).
		Scan(&generation, &schema, &inserted, &t.now, &bound)
	switch {
	case err != nil:
		return err
	case inserted == 0:
		return errCommitted
	case generation != opened:
		return classed(ErrUnavailable, ErrRestored)
	case schema > int64(len(migrations)):
		return classed(ErrUnavailable, ErrNewerSchema)
	}
	return nil
}

// forgetWrites deletes the ids of transactions that nobody repeats any more.
func (t *Tx) forgetWrites(now int64) error {
	_, err := t.exec(`delete from writes where at < $1`, now-time.Hour.Microseconds())
	return err
}
