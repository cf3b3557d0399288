package state

import (
	"context"
	"time"
)

// Browser is a row of the browsers that are signed in.
type Browser struct {
	// Hash is that of the cookie.
	Hash, Name string
	// Owner is who made the one-time link.
	Owner, PersonID string
	// Mail is the address that a provider has verified.
	Mail   string
	Via    Via
	Groups []string
	// Roles are those of a one-time link; of a person of a provider the groups count, and those of an account are
	// read from its row.
	Roles                        map[string][]Role
	CreatedAt, SeenAt, ExpiresAt time.Time
}

// AddBrowser signs a browser in for a time, in place of its session before, which has the hash old. Those that have not been
// used for the time idle, and of more than most those that were used longest ago, are signed out. proof is what a person with
// an account has signed in by: the stored password, or the id of a passkey. The error is [ErrNotFound] if it is no longer valid.
func (d *DB) AddBrowser(ctx context.Context, b Browser, proof, old string, lifetime, idle time.Duration, most int) error {
	return d.writeAt(ctx, func(t *Tx, now int64) error {
		if b.Via == ViaAccount {
			if err := t.signIn(b.PersonID, proof, now); err != nil {
				return err
			}
		}
		if _, err := t.exec(`delete from browsers where hash = $1 or expires_at <= $2 or seen_at <= $3`, old, now,
			now-idle.Microseconds()); err != nil {
			return err
		}
		if _, err := t.exec(`delete from browsers where hash not in (select hash from browsers order by seen_at desc limit $1)`,
			most-1); err != nil {
			return err
		}
		b.CreatedAt, b.SeenAt, b.ExpiresAt = timeOf(now), timeOf(now), timeOf(now).Add(lifetime)
		return t.insert("browsers", columnsOf(&b))
	})
}

// UseBrowser finds a browser that is signed in and was used within the time idle, with the roles and groups that an account
// has now. Its use is noted once in a while.
func (d *DB) UseBrowser(ctx context.Context, hash string, idle, once time.Duration) (b Browser, err error) {
	var now int64
	err = d.readAt(ctx, func(t *Tx, at int64) error {
		now = at
		err := t.get(&b, "browsers", `where hash = $1 and expires_at > $2 and seen_at > $3`, hash, now, now-idle.Microseconds())
		if err != nil || b.Via != ViaAccount {
			return err
		}
		var p Person
		err = t.get(&p, "people", `where id = $1 and revoked_at is null`, b.PersonID)
		b.Name, b.Roles, b.Groups = p.Name, p.Roles, p.Groups
		return err
	})
	if err == nil && timeOf(now).Sub(b.SeenAt) > once {
		_ = d.exec(ctx, `update browsers set seen_at = $2 where hash = $1 and seen_at < $2`, hash, now) // the next use tries again
	}
	return b, err
}

// RemoveBrowser signs a browser out.
func (d *DB) RemoveBrowser(ctx context.Context, hash string) error {
	return d.exec(ctx, `delete from browsers where hash = $1`, hash)
}

// BrowsersOf lists the browsers of a person that are signed in, those that were used last first.
func (d *DB) BrowsersOf(ctx context.Context, person string, idle time.Duration) (all []Browser, err error) {
	err = d.readAt(ctx, func(t *Tx, now int64) error {
		all, err = query[Browser](t, "select "+columnsOf(new(Browser)).names()+
			` from browsers where person_id = $1 and expires_at > $2 and seen_at > $3
			order by seen_at desc`, person, now, now-idle.Microseconds())
		return err
	})
	return all, err
}

// RemoveBrowsers signs the browsers of a person out, but not the one with the hash keep, and ends links for other devices.
func (d *DB) RemoveBrowsers(ctx context.Context, person, keep string) error {
	return d.Write(ctx, func(t *Tx) error { return t.signOut(person, keep) })
}

// Link is a link that signs in once.
type Link struct {
	// Hash is that of the code, ID names it in the audit log, and Owner has made it.
	Hash, ID, Owner string
	// Name is whom it signs in; empty: nobody knows.
	Name  string
	Roles map[string][]Role
}

// AddLink adds a link for a time, and deletes those whose time has passed.
func (d *DB) AddLink(ctx context.Context, l Link, lifetime time.Duration) error {
	return d.writeAt(ctx, func(t *Tx, now int64) error {
		if _, err := t.exec(`delete from links where expires_at <= $1`, now); err != nil {
			return err
		}
		until := now + lifetime.Microseconds()
		return t.insert("links", append(columnsOf(&l), column{"expires_at", &until}))
	})
}

// Link finds a link that can be used. The error is [ErrNotFound] if it is unknown, was used or has expired.
func (d *DB) Link(ctx context.Context, hash string) (l Link, err error) {
	err = d.readAt(ctx, func(t *Tx, now int64) error {
		return t.get(&l, "links", "where hash = $1 and used_at is null and expires_at > $2", hash, now)
	})
	return l, err
}

// UseLink uses a link up. The error is that of [DB.Link].
func (d *DB) UseLink(ctx context.Context, hash string) (l Link, err error) {
	if l, err = d.Link(ctx, hash); err != nil { // who guesses makes nothing be written
		return l, err
	}
	return l, d.writeAt(ctx, func(t *Tx, now int64) error {
		return t.execOne(`update links set used_at = $2 where hash = $1 and used_at is null and expires_at > $2`, hash, now)
	})
}
