package state

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// schema is the first migration.
//
//go:embed schema.sql
var schema string

// migrations make and change the tables, in this order. Before the first release schema.sql is changed in place;
// afterwards a change is one more file here.
var migrations = []string{schema}

// ErrNewerSchema means that a newer program has migrated the database. Callers wait until they are replaced.
var ErrNewerSchema = errors.New("the database was made by a newer version of Maestro; update this program")

// ErrDevelopmentSchema means that a version of Maestro from before the first release has made the database, with other tables.
var ErrDevelopmentSchema = errors.New("the database was made by a development version of Maestro; " +
	"move the state directory away, or restore a backup that this version has made")

// schemaDigest identifies the migrations of this program. It is compared until the first release, because schema.sql is changed
// in place until then.
func schemaDigest() string {
	return string(spec.DigestOf([]byte(strings.Join(migrations, "\x00"))))
}

// migrate applies the migrations that the database has not, in one transaction that excludes other processes.
func (d *DB) migrate(ctx context.Context) error {
	version := 0
	err := d.Read(ctx, func(t *Tx) error { return t.row(`select max(version) from migrations`).Scan(&version) })
	if err == nil && version == len(migrations) {
		return d.Read(ctx, (*Tx).checkSchema)
	}
	return d.Write(ctx, func(t *Tx) error {
		if d.lockSchema != "" {
			if _, err := t.exec(d.lockSchema); err != nil {
				return err
			}
		}
		if _, err := t.exec(`create table if not exists migrations (
			version bigint primary key, at bigint not null, digest text not null)`); err != nil {
			return err
		}
		now, err := t.Now()
		if err != nil {
			return err
		}
		var version int
		if err := t.row(`select coalesce(max(version), 0) from migrations`).Scan(&version); err != nil {
			return err
		}
		if version > len(migrations) {
			return fmt.Errorf("schema %d, not %d: %w", version, len(migrations), ErrNewerSchema)
		}
		for i, m := range migrations[version:] {
			_, err := t.exec(m)
			if isThere(err) { // a migration and its version commit together, so the version was lost
				return fmt.Errorf("migration %d: %w: %w", version+i+1, ErrDamaged, err)
			}
			if err != nil {
				return fmt.Errorf("migration %d: %w", version+i+1, err)
			}
			if _, err := t.exec(`insert into migrations values ($1, $2, $3)`, version+i+1, now, schemaDigest()); err != nil {
				return err
			}
		}
		_, err = t.exec(`insert into installation values (1, $1, 1, '', $2) on conflict do nothing`, rand.Text(), now)
		return err
	})
}

// checkSchema refuses a database whose tables a development version has made.
func (t *Tx) checkSchema() error {
	known, err := t.columnsOf("migrations")
	if err != nil {
		return err
	}
	var digest string
	if len(known) > 2 { // else it is older than the digest
		if err := t.row(`select digest from migrations where version = $1`, len(migrations)).Scan(&digest); err != nil {
			return err
		}
		if !spec.Digest(digest).Valid() {
			return fmt.Errorf("migration %d: %w", len(migrations), ErrDamaged)
		}
	}
	if digest != schemaDigest() {
		return ErrDevelopmentSchema
	}
	return nil
}
