package state

import (
	"context"
	"time"
)

// Lease is the right to work on something until it expires. Whoever takes it raises its epoch, which then fences the
// statements of earlier holders.
type Lease struct {
	Name, Holder, Host string
	Epoch              int64
	ExpiresAt          int64
}

// Take takes a lease for a time if nobody holds it, it has expired, or its holder is free: free reports whether the
// holder of a lease of this host has proved to have ended; nil: none has. held is the lease of another holder.
func (d *DB) Take(ctx context.Context, name, holder, host string, lasts time.Duration, free func(Lease) bool) (taken Lease, held *Lease, err error) {
	err = d.Write(ctx, func(t *Tx) error {
		now, err := t.Now()
		if err != nil {
			return err
		}
		// The row has to exist before it can be locked.
		if _, err := t.exec(`insert into leases (name, holder, host, epoch, expires_at) values ($1, '', '', 0, 0) on conflict (name) do nothing`, name); err != nil {
			return err
		}
		old := Lease{Name: name}
		if err := t.row(`select holder, host, epoch, expires_at from leases where name = $1`+t.lockRows, name).
			Scan(&old.Holder, &old.Host, &old.Epoch, &old.ExpiresAt); err != nil {
			return err
		}
		taken, held = Lease{Name: name, Holder: holder, Host: host, Epoch: old.Epoch + 1, ExpiresAt: now + lasts.Microseconds()}, nil
		switch {
		case old.Holder == holder && old.ExpiresAt > now: // a repetition
			taken.Epoch = old.Epoch
		case old.Holder != "" && old.ExpiresAt > now && (free == nil || old.Host != host || !free(old)):
			held = &old
			return nil
		}
		_, err = t.exec(`update leases set holder = $2, host = $3, epoch = $4, expires_at = $5 where name = $1`,
			name, holder, host, taken.Epoch, taken.ExpiresAt)
		return err
	})
	return taken, held, err
}

// Renew prolongs a lease. The error is [ErrFenced] if another holder has taken it.
func (d *DB) Renew(ctx context.Context, l Lease, lasts time.Duration) (Lease, error) {
	err := d.Write(ctx, func(t *Tx) error {
		now, err := t.Now()
		if err != nil {
			return err
		}
		l.ExpiresAt = now + lasts.Microseconds()
		return t.must(`update leases set expires_at = $3 where name = $1 and epoch = $2`, l.Name, l.Epoch, l.ExpiresAt)
	})
	return l, err
}

// Release gives a lease back. The epoch stays: the next holder has the next one.
func (d *DB) Release(ctx context.Context, l Lease) error {
	return d.Write(ctx, func(t *Tx) error {
		_, err := t.exec(`update leases set holder = '', expires_at = 0 where name = $1 and epoch = $2`, l.Name, l.Epoch)
		return err
	})
}

// must runs a statement that is fenced: if it changes nothing, the error is [ErrFenced].
func (t *Tx) must(statement string, args ...any) error {
	changed, err := t.exec(statement, args...)
	if err == nil && changed == 0 {
		return ErrFenced
	}
	return err
}
