package index

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/maestro-hive/maestro/internal/store"
)

// Options are the settings of an index.
type Options struct {
	// Log receives a message when the index is rebuilt, with the reason; nil: it is not logged.
	Log *slog.Logger
}

// Index is an open index. Its methods are safe for concurrent use.
type Index struct {
	store *store.Store
	log   *slog.Logger
	// path is the file of the index.
	path string

	// refreshing is held by a refresh; begun counts refreshes, and last has the last one of each
	// namespace.
	refreshing sync.Mutex
	begun      atomic.Int64
	last       map[string]lastRefresh
	// mu guards the fields below; users of the database hold it for reading.
	mu sync.RWMutex
	db *sql.DB
	// file is the database's, to detect that it was replaced; nil: the database is in memory.
	file os.FileInfo
	// inMemory is the reason why it is in memory; nil: it is not.
	inMemory error
}

// busyLimit is how long a wait for another process's write lasts at most.
const busyLimit = 15 * time.Second

// Open opens the index of a store, or creates it. If the store's directory cannot hold one, it is
// in memory ([Index.InMemory]). It may be out of date: see [Index.Refresh].
func Open(ctx context.Context, s *store.Store, o Options) (*Index, error) {
	x := &Index{
		store: s, log: o.Log, last: map[string]lastRefresh{},
		path: filepath.Join(s.Dir(), "index", fmt.Sprintf("sessions.v%d.sqlite", schemaVersion)),
	}
	if x.log == nil {
		x.log = slog.New(slog.DiscardHandler)
	}
	if err := x.open(ctx, nil); err != nil {
		return nil, err
	}
	return x, nil
}

// Close closes the index.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.db == nil {
		return nil
	}
	return x.db.Close()
}

// InMemory is the reason why the index is in memory, so that each process has to read the whole
// store; nil: it is in a file.
func (x *Index) InMemory() error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.inMemory
}

// open opens the database, in memory if it cannot be in a file. damage, if not nil, is the reason
// to replace the file. mu is held, or the index is not shared yet.
func (x *Index) open(ctx context.Context, damage error) error {
	if x.inMemory == nil {
		err := x.openFile(ctx, damage)
		if err == nil || ctx.Err() != nil {
			return err
		}
		x.inMemory = err
		x.log.Warn("the index cannot be in the store's directory and is kept in memory", "error", err)
	}
	x.file = nil
	db, err := connect("file::memory:")
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1) // another connection would have another database
	db.SetMaxIdleConns(1)
	x.db = db
	return x.create(ctx, db)
}

// openFile opens the database in its file. Only one process at a time opens or replaces it.
func (x *Index) openFile(ctx context.Context, damage error) error {
	if err := x.prepare(); err != nil {
		return err
	}
	unlock, err := lockFile(ctx, filepath.Join(filepath.Dir(x.path), "sessions.lock"))
	if err != nil {
		return fmt.Errorf("lock the index: %w", err)
	}
	defer unlock()
	there, err := os.Stat(x.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return x.replace(ctx)
	case err != nil:
		return err
	case damage != nil && x.file != nil && os.SameFile(there, x.file):
		x.log.Warn("the index is damaged and is rebuilt", "error", damage)
		return x.replace(ctx)
	}
	if there.Size() == 0 { // it cannot be written while others have it open
		return x.replace(ctx)
	}
	db, err := connect(fileURL(x.path))
	if err == nil {
		if err = x.check(ctx, db); err == nil {
			x.db, x.file = db, there
			return nil
		}
		_ = db.Close()
	}
	if !damaged(err) {
		return err
	}
	x.log.Warn("the index cannot be used and is rebuilt", "error", err)
	return x.replace(ctx)
}

// prepare makes the directory of the index and rejects one that cannot hold the database.
func (x *Index) prepare() error {
	dir := filepath.Dir(x.path)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return fit(dir)
}

// replace creates a new file. Processes that have the old file open continue to use it until their
// next refresh, which detects the replacement.
func (x *Index) replace(ctx context.Context) error {
	dir := filepath.Dir(x.path)
	old, _ := os.ReadDir(dir)
	for _, e := range old {
		if ours, _ := filepath.Match("sessions.v*.sqlite*", e.Name()); !ours {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	f, err := os.OpenFile(x.path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	db, err := connect(fileURL(x.path))
	if err != nil {
		return err
	}
	if err = x.create(ctx, db); err == nil {
		x.file, err = os.Stat(x.path)
	}
	if err != nil {
		_ = db.Close()
		return err
	}
	x.db = db
	return nil
}

func fileURL(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

func connect(name string) (*sql.DB, error) {
	o := url.Values{"_txlock": {"immediate"}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyLimit.Milliseconds()), "journal_mode(WAL)", "synchronous(NORMAL)",
		"journal_size_limit(8388608)", "cache_size(-16384)",
	}}
	db, err := sql.Open("sqlite", name+"?"+o.Encode())
	if err != nil {
		return nil, fmt.Errorf("open the index: %w", err)
	}
	db.SetMaxOpenConns(4)
	return db, nil
}

// create makes the tables.
func (x *Index) create(ctx context.Context, db *sql.DB) error {
	return transact(ctx, db, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", schemaVersion)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO state VALUES (?, ?, 0)", rand.Text(), x.store.ID())
		return err
	})
}

// errOther reports that a file is not an index that this program can use.
var errOther = errors.New("it is not an index of this store and version")

// check rejects a file that is not a usable index of this store.
func (x *Index) check(ctx context.Context, db *sql.DB) error {
	var version int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version != schemaVersion {
		return fmt.Errorf("%w: its version is %d, not %d", errOther, version, schemaVersion)
	}
	var id sql.NullString // damage can make anything of it
	if err := db.QueryRowContext(ctx, "SELECT store FROM state").Scan(&id); err != nil {
		return err
	}
	if id.String != x.store.ID() {
		return fmt.Errorf("%w: it is that of store %.40q", errOther, id.String)
	}
	return nil
}

// damaged reports whether an error requires that the file is replaced.
func damaged(err error) bool {
	var e *sqlite.Error
	switch {
	case errors.Is(err, errOther), errors.Is(err, sql.ErrNoRows):
		return true
	case errors.As(err, &e):
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_CONSTRAINT,
			sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PROTOCOL:
			return true
		}
	}
	return errors.Is(err, errValue)
}

// errValue reports that a column has a value that this package has not written.
var errValue = errors.New("the index has a value of another kind")

// transact runs a short transaction that writes.
func transact(ctx context.Context, db *sql.DB, change func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := change(tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

// use runs an operation on the database. After damage it rebuilds the database and retries.
func (x *Index) use(ctx context.Context, run func(db *sql.DB) error) error {
	db, err := x.try(run)
	if !damaged(err) || ctx.Err() != nil {
		return err
	}
	x.refreshing.Lock()
	err = x.rebuild(ctx, db, err)
	x.refreshing.Unlock()
	if err == nil {
		_, err = x.try(run)
	}
	return err
}

// try runs an operation once and returns the database that it has used.
func (x *Index) try(run func(db *sql.DB) error) (*sql.DB, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.db, run(x.db)
}

// rebuild replaces a damaged database and reads the content of all used namespaces from the store again. It does not end with its caller,
// whose context may be cancelled: others would read an index that is closed or incomplete. refreshing is held.
func (x *Index) rebuild(ctx context.Context, db *sql.DB, damage error) error {
	ctx = context.WithoutCancel(ctx)
	if err := x.reopen(ctx, db, damage); err != nil {
		return err
	}
	for namespace := range x.last {
		if _, err := x.refresh(ctx, namespace); err != nil {
			return err
		}
	}
	return nil
}

// reopen opens the database again, unless another caller has done that since db was in use.
func (x *Index) reopen(ctx context.Context, db *sql.DB, damage error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.db != db {
		return nil
	}
	_ = x.db.Close()
	return x.open(ctx, damage)
}

// replaced reports whether the file is a different one from the open one.
func (x *Index) replaced() (*sql.DB, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.file == nil {
		return x.db, false
	}
	there, err := os.Stat(x.path)
	return x.db, err != nil || !os.SameFile(there, x.file)
}
