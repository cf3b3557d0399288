package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// FileName is the name of a SQLite database in the state directory.
const FileName = "state.db"

// busyTimeout is how long a statement waits for another process that writes the same SQLite file.
const busyTimeout = 10 * time.Second

// readers is how many connections read at a time.
const readers = 8

// maxLogPages is about how many pages of 4 kB the write-ahead log has: a small disk is not filled by it.
const maxLogPages = 200

// engine is what differs between the databases.
type engine struct {
	// lockRows ends a query whose rows the transaction will change: SQLite has one writer at a time.
	lockRows string
	// shareRows ends a query whose rows must not change until the transaction ends.
	shareRows string
	// lockSchema begins the transaction that migrates; empty if every transaction that writes excludes others.
	lockSchema string
	// day is the UTC day on which the session s was started, as an expression.
	day string
	// lockTable lets one transaction at a time change the table %s; empty if every transaction that writes excludes others.
	lockTable string
	// now is the query of the database's clock in microseconds; empty: the process's own clock.
	now string
	// limit bounds a transaction; zero: it is bounded by the driver.
	limit time.Duration
	// bound is the first statement of a transaction that reads, with which the database bounds it; empty: there is none.
	bound string
	// snapshot is the isolation at which all statements of a transaction see one state.
	snapshot sql.IsolationLevel
}

var sqliteEngine = engine{day: "strftime('%Y-%m-%d', s.started_at / 1000000, 'unixepoch')"}

// Options are those of [OpenSQLite].
type Options struct {
	// Now is the clock.
	Now func() time.Time
	// FreeReserve frees disk space that is kept for a full disk, and reports whether there was any; nil: none is.
	FreeReserve func() bool
}

// OpenSQLite opens the database in a state directory, and makes or migrates its tables.
func OpenSQLite(ctx context.Context, dir string, o Options) (*DB, error) {
	if err := checkFileSystem(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, FileName)
	if unix.Access(dir, unix.W_OK) != nil {
		return openReadOnly(ctx, path, o)
	}
	if err := createPrivate(path); err != nil {
		return nil, fmt.Errorf("create the database: %w", err)
	}
	options := writing()
	options.Set("_txlock", "immediate")
	write, err := openFile(path, options, 1)
	if err != nil {
		return nil, err
	}
	read, err := openFile(path, writing("query_only(1)"), readers)
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	return open(ctx, &DB{engine: sqliteEngine, write: write, read: read, turn: make(chan struct{}, 1), options: o, path: path})
}

// openFile opens a SQLite database with so many connections. The driver's options are those of each.
func openFile(path string, options url.Values, connections int) (*sql.DB, error) {
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: options.Encode()}).String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db.SetMaxOpenConns(connections)
	return db, nil
}

// openReadOnly opens a database on a read-only medium. Without a write-ahead log, SQLite reads the file without locks and
// shared memory; with one, those that the last process has left must be there.
func openReadOnly(ctx context.Context, path string, o Options) (*DB, error) {
	values := url.Values{"mode": {"ro"}}
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() == 0 {
		values.Set("immutable", "1")
	}
	read, err := openFile(path, values, readers)
	if err != nil {
		return nil, err
	}
	return open(ctx, &DB{engine: sqliteEngine, write: read, read: read, turn: make(chan struct{}, 1), options: o, path: path})
}

// createPrivate makes an empty database that only its owner can read, if there is none: the driver would leave that to the
// umask. It opens no database that exists: when a process closes a file, it loses all locks that it has on it.
func createPrivate(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), FileName+".new*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it has another name by then
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// writing are the driver's options of connections that write: a write-ahead log that is flushed at each commit, on macOS to
// the drive's storage.
func writing(more ...string) url.Values {
	return url.Values{"_pragma": append([]string{
		"busy_timeout(" + strconv.FormatInt(busyTimeout.Milliseconds(), 10) + ")",
		"journal_mode(wal)", "synchronous(full)", "fullfsync(1)", "foreign_keys(1)",
		"wal_autocheckpoint(" + strconv.Itoa(maxLogPages) + ")",
	}, more...)}
}
