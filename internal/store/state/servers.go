package state

import (
	"context"
	"time"
)

// AnnounceServer notes that a server can be called at an address, and runs on a host. public: it was given the address.
// Servers that have not been announced for the time lasts are deleted.
func (d *DB) AnnounceServer(ctx context.Context, address, host string, public bool, lasts time.Duration) error {
	return d.writeAt(ctx, func(t *Tx, now int64) error {
		if _, err := t.exec(`delete from servers where renewed_at <= $1`, now-lasts.Microseconds()); err != nil {
			return err
		}
		row := columns{{"address", &address}, {"host", &host}, {"public", &public}, {"started_at", &now}, {"renewed_at", &now}}
		_, err := t.exec(`insert into servers (`+row.names()+`) values (`+row.places()+`)
			on conflict (address) do update set host = excluded.host, public = excluded.public, renewed_at = excluded.renewed_at`, row.values()...)
		return err
	})
}

// WithdrawServer deletes the server with an address.
func (d *DB) WithdrawServer(ctx context.Context, address string) error {
	return d.exec(ctx, `delete from servers where address = $1`, address)
}

// Server is the address of a server that was announced within the time lasts, on a host if one is named: those with a
// public address come first, then those that started first. The error is [ErrNotFound] if there is none.
func (d *DB) Server(ctx context.Context, host string, lasts time.Duration) (address string, err error) {
	err = d.readAt(ctx, func(t *Tx, now int64) error {
		return t.row(`select address from servers where renewed_at > $1 and (host = $2 or $2 = '')
			order by public desc, started_at, address limit 1`, now-lasts.Microseconds(), host).Scan(&address)
	})
	return address, err
}
