package devserver

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/schema/sqlite"
)

const (
	// sqlDriver is the name under which the SQLite plugin's driver (pure Go) registers itself.
	sqlDriver = "sqlite"

	// A killed server's lock is gone when its process is, which takes a moment under load.
	lockPatience = 2 * time.Second
	lockPause    = 25 * time.Millisecond
)

// database is the SQLite database behind a server, with its lock.
type database struct {
	config *config.SQL
	unlock func()
}

// openDatabase prepares the file, or a database in memory that no other server of this process sees. When it returns,
// the schema is there as a whole, and no other server uses the file until close.
func openDatabase(ctx context.Context, filename string) (*database, error) {
	if filename == "" {
		return &database{config: memoryConfig(), unlock: func() {}}, nil
	}
	if err := os.MkdirAll(filepath.Dir(filename), 0o700); err != nil {
		return nil, fmt.Errorf("database file: %w", err)
	}
	unlock, err := lockDatabase(ctx, filename)
	if err != nil {
		return nil, err
	}
	db := &database{config: fileConfig(filename), unlock: unlock}
	if err := createSchema(ctx, filename, db.config); err != nil {
		unlock()
		return nil, fmt.Errorf("database file %s: %w", filename, err)
	}
	return db, nil
}

func (d *database) close() { d.unlock() }

// fileConfig asks for a write-ahead log, which costs one fsync a commit instead of several, and for an fsync at each
// commit, without which the last commits are lost with the power.
func fileConfig(filename string) *config.SQL {
	return &config.SQL{
		PluginName:   sqliteplugin.PluginName,
		DatabaseName: (&url.URL{Path: filename}).EscapedPath(), // SQLite reads it as a URI: ? and % have a meaning there
		ConnectAttributes: map[string]string{
			"mode":         "rwc",
			"journal_mode": "wal",
			"synchronous":  "full",
		},
	}
}

func memoryConfig() *config.SQL {
	return &config.SQL{
		PluginName:        sqliteplugin.PluginName,
		DatabaseName:      "maestro-" + rand.Text(),
		ConnectAttributes: map[string]string{"mode": "memory", "cache": "shared"},
	}
}

// lockDatabase keeps a second server off the file: both would own all of it and overwrite each other's work. The lock
// dies with its process.
func lockDatabase(ctx context.Context, filename string) (func(), error) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	lock := flock.New(filename+".lock", flock.SetPermissions(0o600))
	locked, err := lock.TryLockContext(ctx, lockPause)
	if errors.Is(err, context.DeadlineExceeded) || err == nil && !locked {
		return nil, fmt.Errorf("database file %s is in use by another server: stop that one, or choose another file", filename)
	}
	if err != nil {
		return nil, fmt.Errorf("database file %s: lock: %w", filename, err)
	}
	return func() { _ = lock.Close() }, nil
}

// createSchema makes Temporal's tables in an empty file, all of them or none: a server that is killed here leaves a
// file that the next one can start on.
func createSchema(ctx context.Context, filename string, cfg *config.SQL) error {
	// SQLite would make the file readable for everyone, and histories are nobody else's business.
	file, err := os.OpenFile(filename, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	db, err := sql.Open(sqlDriver, "file:"+cfg.DatabaseName+"?_pragma=journal_mode=wal&_pragma=synchronous=full")
	if err != nil {
		return err
	}
	err = inTransaction(ctx, db, func(tx *sql.Tx) error {
		found, err := hasSchema(ctx, tx)
		if err != nil || found {
			return err
		}
		return sqlite.SetupSchemaOnDB(schemaWriter{ctx: ctx, tx: tx})
	})
	return errors.Join(err, db.Close())
}

func inTransaction(ctx context.Context, db *sql.DB, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// hasSchema tells an empty file from Temporal's, and refuses any other: tables of two programs in one file would end
// badly for both.
func hasSchema(ctx context.Context, tx *sql.Tx) (bool, error) {
	var tables, temporal int
	const query = `SELECT COUNT(*), COUNT(*) FILTER (WHERE name IN ('namespaces', 'executions_visibility'))
		FROM sqlite_master WHERE type = 'table'`
	if err := tx.QueryRowContext(ctx, query).Scan(&tables, &temporal); err != nil {
		return false, err
	}
	if tables > 0 && temporal < 2 {
		return false, errors.New("holds the tables of another program: choose another file")
	}
	return tables > 0, nil
}

// schemaWriter is as much of an AdminDB as SetupSchemaOnDB uses: it executes the schema's statements in one
// transaction. Any other method would panic.
type schemaWriter struct {
	sqlplugin.AdminDB
	ctx context.Context //nolint:containedctx // AdminDB.Exec takes none, and the value lives for one call.
	tx  *sql.Tx
}

func (w schemaWriter) Exec(statement string, args ...any) error {
	_, err := w.tx.ExecContext(w.ctx, statement, args...)
	return err
}
