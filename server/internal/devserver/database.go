package devserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"go.temporal.io/server/common/config"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/schema/sqlite"
)

const (
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
	if err := createDatabase(filename); err != nil {
		unlock()
		return nil, fmt.Errorf("database file %s: %w", filename, err)
	}
	// A write-ahead log costs one fsync a commit instead of several; without an fsync at each commit the last ones would be
	// lost with the power.
	return &database{fileConfig(filename, "wal", "full"), unlock}, nil
}

func fileConfig(filename, journal, synchronous string) *config.SQL {
	return &config.SQL{
		PluginName:        sqliteplugin.PluginName,
		DatabaseName:      (&url.URL{Path: filename}).EscapedPath(), // SQLite reads it as a URI: ? and % have a meaning there
		ConnectAttributes: map[string]string{"mode": "rwc", "journal_mode": journal, "synchronous": synchronous},
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

// createDatabase makes a file with Temporal's tables if there is none. The file gets its name when it has all of them: a server
// that is killed before leaves nothing that the next one could take for a database.
func createDatabase(filename string) error {
	if _, err := os.Stat(filename); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// SQLite would make the file readable for everyone, and histories are nobody else's business.
	file, err := os.OpenFile(filename+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = sqlite.SetupSchema(fileConfig(file.Name(), "memory", "off"))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), filename)
}
