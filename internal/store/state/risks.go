package state

import (
	"context"
	"database/sql"
	"strconv"
)

// Risk is a setting of PostgreSQL by which it can lose what it has committed.
type Risk struct{ What, Remedy string }

// risky are the settings that lose commits with the value here.
var risky = []struct{ name, value, what string }{
	{"fsync", "off", "a crash of its host damages the database"},
	{"full_page_writes", "off", "a crash of its host can damage the database"},
	{"synchronous_commit", "off", "a crash of the server loses the newest commits"},
	{"synchronous_commit", "local", "a failover to a standby loses the newest commits"},
	{"synchronous_commit", "remote_write", "a crash of the standby's host during a failover loses the newest commits"},
}

// Risks lists the settings of a PostgreSQL database by which it can lose commits; none of a SQLite file.
func (d *DB) Risks(ctx context.Context) (risks []Risk, err error) {
	if d.turn != nil {
		return nil, nil
	}
	err = d.Read(ctx, func(t *Tx) error {
		settings := map[string]string{}
		var recovers bool
		var standbys, asynchronous int
		if err := t.each(func(r *sql.Rows) error {
			var name, value string
			err := r.Scan(&name, &value)
			settings[name] = value
			return err
		}, `select name, setting from pg_settings where name in ('fsync', 'full_page_writes', 'synchronous_commit')`); err != nil {
			return err
		}
		if err := t.row(`select pg_is_in_recovery(), (select count(*) from pg_stat_replication),
				(select count(*) from pg_stat_replication where coalesce(sync_state, 'async') = 'async')`).
			Scan(&recovers, &standbys, &asynchronous); err != nil {
			return err
		}
		for _, s := range risky {
			if settings[s.name] == s.value && (s.name != "synchronous_commit" || s.value == "off" || standbys > 0) {
				risks = append(risks, Risk{s.name + " is " + s.value + ": " + s.what, "set " + s.name + " to on"})
			}
		}
		if standbys > 0 && standbys == asynchronous {
			risks = append(risks, Risk{
				"none of its " + strconv.Itoa(standbys) + " standbys is synchronous: a failover loses the newest commits",
				"set synchronous_standby_names; after a failover, run `maestro verify`",
			})
		}
		if recovers {
			risks = append(risks, Risk{"it is a standby, which takes no changes", "give the address of the primary"})
		}
		return nil
	})
	return risks, err
}
