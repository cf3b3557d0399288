package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// openOwn opens the SQLite database in the directory.
func openOwn(ctx context.Context, d *storage.Directory, id identity, o Options) (*state.DB, error) {
	if id.Host != "" {
		return nil, fmt.Errorf("the state of %s is in a PostgreSQL database; give its URL with --store or MAESTRO_STORE", d.Root())
	}
	return state.OpenSQLite(ctx, d.Root(), state.Options{Now: o.Clock, FreeReserve: d.FreeReserve})
}

// openShared opens a PostgreSQL database. The directory becomes this host's, if it is none yet.
func openShared(ctx context.Context, d *storage.Directory, o Location) (*state.DB, identity, error) {
	db, err := state.OpenPostgres(ctx, o.Database)
	if err != nil {
		return nil, identity{}, fmt.Errorf("open the database that --store or %s names: %w", DatabaseVariable, err)
	}
	id, err := hostIn(ctx, d, db)
	if err == nil {
		err = claimContent(ctx, db, id, o.Content)
	}
	if err != nil {
		return nil, id, errors.Join(err, db.Close())
	}
	return db, id, nil
}

// claimContent refuses another place for the content than that of the other hosts: they would not find the blobs.
func claimContent(ctx context.Context, db *state.DB, id identity, content string) error {
	where, _, _ := strings.Cut(content, "?") // the rest says how the place is reached
	if where == "" {
		where = "the state directory of host " + id.Host
	}
	known, err := db.ClaimContent(ctx, where)
	if err == nil && known != where {
		err = fmt.Errorf("the content of store %s is in %s, not in %s; several hosts need a bucket, which each gets with --content or "+
			"MAESTRO_CONTENT", id.ID, known, where)
	}
	return err
}

// hostIn reads the identity of this host for a database, or makes it.
func hostIn(ctx context.Context, d *storage.Directory, db *state.DB) (identity, error) {
	name, err := db.Name(ctx)
	if err != nil {
		return identity{}, err
	}
	id, err := readIdentity(d)
	if errors.Is(err, session.ErrNotFound) {
		if err := createIdentity(d, identity{ID: name, Host: randomID()}); err != nil {
			return id, err
		}
		id, err = readIdentity(d)
	}
	if err == nil && (id.ID != name || id.Host == "") {
		err = fmt.Errorf("the state directory %s belongs to store %s, but the database is that of store %s; give this host another "+
			"--state-dir for it", d.Root(), id.ID, name)
	}
	return id, err
}
