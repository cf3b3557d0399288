package state

import (
	"context"
	"time"
)

// LeaseHolder names who executes something, on which host.
type LeaseHolder struct {
	// Name is what is executed. Host is the id of a host, and Holder a random text.
	Name, Host, Holder string
}

// Shared reports whether several hosts may use the database.
func (d *DB) Shared() bool { return d.turn == nil }

// Acquire takes a lease for some time. ok is false while another host has it. The caller has the local lock of the same name,
// so another holder on its host has ended. Leases that have ended long ago are deleted.
func (d *DB) Acquire(ctx context.Context, l LeaseHolder, lasts time.Duration) (ok bool, err error) {
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		if _, err := t.exec(`delete from leases where expires_at < $1 and name <> $2`, now-time.Hour.Microseconds(), l.Name); err != nil {
			return err
		}
		taken, err := t.exec(`insert into leases (name, host, holder, expires_at) values ($1, $2, $3, $4)
			on conflict (name) do update set host = excluded.host, holder = excluded.holder, expires_at = excluded.expires_at
			where leases.host = excluded.host or leases.expires_at <= $5`, l.Name, l.Host, l.Holder, now+lasts.Microseconds(), now)
		ok = taken > 0
		return err
	})
	return ok, err
}

// Renew makes a lease last longer from now on. ok is false if another holder has taken it.
func (d *DB) Renew(ctx context.Context, l LeaseHolder, lasts time.Duration) (ok bool, err error) {
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		renewed, err := t.exec(`update leases set expires_at = $3 where name = $1 and holder = $2`, l.Name, l.Holder, now+lasts.Microseconds())
		ok = renewed > 0
		return err
	})
	return ok, err
}

// Release gives a lease back, unless another holder has taken it.
func (d *DB) Release(ctx context.Context, l LeaseHolder) error {
	return d.exec(ctx, `delete from leases where name = $1 and holder = $2`, l.Name, l.Holder)
}
