package state

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/maestro-hive/maestro/internal/platform/retryafter"
)

// DB is the database of an installation. It is safe for concurrent use.
type DB struct {
	engine
	write, read *sql.DB
	// turn is held by the transaction that writes: SQLite has one writer at a time, and its own queue is unfair. Nil where
	// the database has many.
	turn    chan struct{}
	options Options
	// path is that of a SQLite file.
	path string
	// generation is the installation's when it was opened; 0 until then.
	generation int64
}

// Tx is a transaction, which the function that got it must not keep.
type Tx struct {
	*engine
	ctx   context.Context //nolint:containedctx // that of the transaction, which ends with it
	tx    *sql.Tx
	clock func() time.Time
	now   int64
}

// maxConflicts is how often PostgreSQL may end a transaction for the sake of another one.
const maxConflicts = 10

func open(ctx context.Context, d *DB) (*DB, error) {
	// A connection that changes a new file to a write-ahead log does not wait for others that do the same.
	bounded, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	err := d.migrate(ctx)
	for sqliteCode(err) == sqlite3.SQLITE_BUSY && bounded.Err() == nil { // another process makes the tables
		if retryafter.Wait(bounded, openPause) {
			err = d.migrate(ctx)
		}
	}
	if err == nil {
		d.generation, err = read(ctx, d, (*Tx).generation)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// openPause is the time between two tries to open a SQLite database.
const openPause = 20 * time.Millisecond

// Close closes all connections.
func (d *DB) Close() error {
	return errors.Join(d.read.Close(), d.write.Close()) // the second call for the same pool does nothing
}

// Write runs a function in a transaction, and commits unless it returns an error. The function may run more than once, and
// must not wait for anything but the database. If the reply of a commit is lost, the outcome is found by an id of the
// transaction. The outcome is not known if the database cannot be reached then, so every change has to be one that can be
// repeated.
func (d *DB) Write(ctx context.Context, do func(*Tx) error) error {
	if d.turn != nil {
		select {
		case d.turn <- struct{}{}:
			defer func() { <-d.turn }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	id := ""
	var patience <-chan time.Time
	if d.turn == nil && d.generation != 0 {
		id, patience = rand.Text(), time.After(lostFor)
	}
	freed := false
	for tries := 1; ; tries++ {
		err := d.run(ctx, d.write, nil, func(t *Tx) error {
			if err := t.begin(id, d.generation); err != nil {
				return err
			}
			return do(t)
		})
		switch {
		case errors.Is(err, errCommitted):
			return nil
		case conflicts(err) && tries < maxConflicts:
			continue
		case id != "" && isLost(err) && pause(ctx, patience, time.Duration(tries)*openPause):
			continue
		case sqliteCode(err) == sqlite3.SQLITE_FULL && !freed && d.options.FreeReserve != nil && d.options.FreeReserve():
			freed = true
			continue
		}
		return classify(ctx, err)
	}
}

// begin begins a transaction that writes. Without a generation, the tables may have to be made yet.
func (t *Tx) begin(id string, generation int64) error {
	switch {
	case generation == 0:
		return nil
	case id == "":
		return t.sameGeneration(generation)
	}
	return t.beginWrite(id, generation)
}

// pause waits, and reports whether the context goes on and there is patience.
func pause(ctx context.Context, patience <-chan time.Time, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-patience:
		return false
	case <-ctx.Done():
		return false
	}
}

// writeAt is Write with the database's time.
func (d *DB) writeAt(ctx context.Context, do func(t *Tx, now int64) error) error {
	return d.Write(ctx, withNow(do))
}

// readAt is Read with the database's time.
func (d *DB) readAt(ctx context.Context, do func(t *Tx, now int64) error) error {
	return d.Read(ctx, withNow(do))
}

func withNow(do func(t *Tx, now int64) error) func(*Tx) error {
	return func(t *Tx) error {
		now, err := t.Now()
		if err != nil {
			return err
		}
		return do(t, now)
	}
}

// exec runs one statement in a transaction.
func (d *DB) exec(ctx context.Context, statement string, args ...any) error {
	return d.Write(ctx, func(t *Tx) error {
		_, err := t.exec(statement, args...)
		return err
	})
}

// Read runs a function in a transaction that sees one state of the database and changes nothing.
func (d *DB) Read(ctx context.Context, do func(*Tx) error) error {
	return classify(ctx, d.run(ctx, d.read, &sql.TxOptions{ReadOnly: true, Isolation: d.snapshot}, do))
}

// read returns what a function reads in a transaction.
func read[V any](ctx context.Context, d *DB, do func(*Tx) (V, error)) (value V, err error) {
	err = d.Read(ctx, func(t *Tx) (err error) {
		value, err = do(t)
		return err
	})
	return value, err
}

func (d *DB) run(ctx context.Context, on *sql.DB, options *sql.TxOptions, do func(*Tx) error) error {
	if d.limit > 0 {
		bounded, cancel := context.WithTimeout(ctx, d.limit)
		defer cancel()
		ctx = bounded
	}
	tx, err := on.BeginTx(ctx, options)
	if err != nil {
		return err
	}
	if d.bound != "" && options != nil { // beginWrite bounds those that write
		_, err = tx.ExecContext(ctx, d.bound)
	}
	if err == nil {
		err = do(&Tx{engine: &d.engine, ctx: ctx, tx: tx, clock: d.options.Now})
	}
	if err != nil {
		_ = tx.Rollback() // the first error says why
		return err
	}
	return tx.Commit()
}

// Now is the database's time in microseconds, the same in the whole transaction.
func (t *Tx) Now() (now int64, err error) {
	switch {
	case t.now != 0:
	case t.engine.now == "":
		t.now = t.clock().UnixMicro()
	default:
		err = t.tx.QueryRowContext(t.ctx, t.engine.now).Scan(&t.now)
	}
	return t.now, err
}

// exec runs a statement, and returns how many rows it has changed.
func (t *Tx) exec(statement string, args ...any) (changed int64, err error) {
	result, err := t.tx.ExecContext(t.ctx, statement, cleaned(args)...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", firstLine(statement), err)
	}
	return result.RowsAffected()
}

// execOne runs a statement. The error is [ErrNotFound] if it changes no row.
func (t *Tx) execOne(statement string, args ...any) error {
	changed, err := t.exec(statement, args...)
	if err == nil && changed == 0 {
		err = ErrNotFound
	}
	return err
}

// seeQuery sees every query: a test looks at how they are planned.
var seeQuery = func(string, []any) {}

// lock lets no other transaction change a table until this one ends: for what is counted or numbered.
func (t *Tx) lock(table string) error {
	if t.lockTable == "" {
		return nil
	}
	_, err := t.exec(fmt.Sprintf(t.lockTable, table))
	return err
}

// texts reads a column of texts.
func (t *Tx) texts(query string, args ...any) (all []string, err error) {
	err = t.each(func(r *sql.Rows) error {
		all = append(all, "")
		return r.Scan(&all[len(all)-1])
	}, query, args...)
	return all, err
}

// row reads one row.
func (t *Tx) row(query string, args ...any) *sql.Row {
	seeQuery(query, args)
	return t.tx.QueryRowContext(t.ctx, query, cleaned(args)...)
}

// each reads rows one by one.
func (t *Tx) each(scan func(*sql.Rows) error, query string, args ...any) error {
	seeQuery(query, args)
	rows, err := t.tx.QueryContext(t.ctx, query, cleaned(args)...)
	if err != nil {
		return fmt.Errorf("%s: %w", firstLine(query), err)
	}
	defer rows.Close() //nolint:errcheck // Err has it
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// cleaned makes texts valid: a database refuses what is not UTF-8, and PostgreSQL a NUL.
func cleaned(args []any) []any {
	for i, a := range args {
		if text, ok := a.(string); ok {
			args[i] = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "�"), "�")
		}
	}
	return args
}

func firstLine(statement string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(statement), "\n")
	return line
}

// Check looks at the pages of a SQLite file. The error is [ErrDamaged], with what it has found. PostgreSQL has tools of
// its own for that.
func (d *DB) Check(ctx context.Context) error {
	if d.turn == nil {
		return nil
	}
	return d.Read(ctx, func(t *Tx) error {
		var found string
		if err := t.row(`pragma quick_check(1)`).Scan(&found); err != nil || found == "ok" {
			return err
		}
		return fmt.Errorf("%w: %s", ErrDamaged, found)
	})
}
