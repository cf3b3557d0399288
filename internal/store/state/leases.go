package state

import (
	"context"
	"strings"
	"time"
)

// Lease names who executes something, on which host.
type Lease struct {
	// Name is what is executed. Host is the id of a host, and Holder a random text.
	Name, Host, Holder string
}

// Shared reports whether several hosts may use the database.
func (d *DB) Shared() bool { return d.turn == nil }

// Name is the id of the installation in the names of task queues.
func (d *DB) Name(ctx context.Context) (name string, err error) {
	err = d.Read(ctx, func(t *Tx) error { return t.row(`select id from installation`).Scan(&name) })
	return strings.ToLower(name[:min(len(name), 8)]), err
}

// ClaimContent says where the blobs are that rows name, unless it was said before. It returns where they are.
func (d *DB) ClaimContent(ctx context.Context, where string) (known string, err error) {
	err = d.Write(ctx, func(t *Tx) error {
		if _, err := t.exec(`update installation set content = $1 where content = ''`, where); err != nil {
			return err
		}
		return t.row(`select content from installation`).Scan(&known)
	})
	return known, err
}

// Acquire takes a lease for some time. ok is false while another host has it. The caller has the local lock of the same name,
// so another holder on its host has ended. Leases that have ended long ago are deleted.
func (d *DB) Acquire(ctx context.Context, l Lease, lasts time.Duration) (ok bool, err error) {
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
func (d *DB) Renew(ctx context.Context, l Lease, lasts time.Duration) (ok bool, err error) {
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		renewed, err := t.exec(`update leases set expires_at = $3 where name = $1 and holder = $2`, l.Name, l.Holder, now+lasts.Microseconds())
		ok = renewed > 0
		return err
	})
	return ok, err
}

// Release gives a lease back, unless another holder has taken it.
func (d *DB) Release(ctx context.Context, l Lease) error {
	_, err := d.exec(ctx, `delete from leases where name = $1 and holder = $2`, l.Name, l.Holder)
	return err
}

// LeasedBy is the host that has a lease and when it ends; empty if nobody has it.
func (d *DB) LeasedBy(ctx context.Context, name string) (host string, until time.Time, err error) {
	err = d.Read(ctx, func(t *Tx) error {
		var at int64
		err := t.row(`select host, expires_at from leases where name = $1`, name).Scan(&host, &at)
		if isNoRows(err) {
			return nil
		}
		until = timeOf(at)
		return err
	})
	return host, until, err
}
