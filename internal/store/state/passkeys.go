package state

import (
	"context"
	"encoding/json"
	"time"
)

// Passkey is a row of the passkeys of people.
type Passkey struct {
	ID     string `json:"id"`
	Person string `json:"-"`
	// Credential is its public key, counter and flags.
	Credential json.RawMessage `json:"-"`
	CreatedAt  time.Time       `json:"created_at"`
	UsedAt     *time.Time      `json:"used_at"`
}

// AddPasskey adds a passkey of a person. The error is [ErrNotFound] if the id is another passkey's.
func (d *DB) AddPasskey(ctx context.Context, k Passkey) error {
	return d.writeAt(ctx, func(t *Tx, now int64) error { return t.addPasskey(k, now) })
}

func (t *Tx) addPasskey(k Passkey, now int64) error {
	k.CreatedAt = timeOf(now)
	added, err := t.insertNew("passkeys", columnsOf(&k))
	if err == nil && !added {
		err = ErrNotFound
	}
	return err
}

// PasskeysOf lists the passkeys of a person, the oldest first.
func (d *DB) PasskeysOf(ctx context.Context, person string) ([]Passkey, error) {
	return list[Passkey](ctx, d, "passkeys", "where person = $1 order by created_at, id", person)
}

// UsePasskey notes the use of a passkey, with its counter and flags. The error is [ErrNotFound] if another use came between, or
// it was removed.
func (d *DB) UsePasskey(ctx context.Context, k Passkey, credential json.RawMessage) error {
	return d.writeAt(ctx, func(t *Tx, now int64) error {
		return t.execOne(`update passkeys set credential = $3, used_at = $4 where id = $1 and credential = $2`,
			k.ID, string(k.Credential), string(credential), now)
	})
}

// RemovePasskey removes a passkey of a person, and signs the browsers out but the one with the hash keep. The error is
// [ErrNotFound] if the person has none with the id.
func (d *DB) RemovePasskey(ctx context.Context, person, id, keep string) error {
	return d.Write(ctx, func(t *Tx) error {
		if err := t.execOne(`delete from passkeys where id = $1 and person = $2`, id, person); err != nil {
			return err
		}
		return t.signOut(person, keep)
	})
}

// AddCeremony keeps a ceremony of passkeys for a time, under the hash of the browser's cookie. Of more than
// most the oldest end, so that nobody keeps a later person from signing in.
func (d *DB) AddCeremony(ctx context.Context, hash string, data json.RawMessage, lifetime time.Duration, most int) error {
	return d.writeAt(ctx, func(t *Tx, now int64) error {
		if _, err := t.exec(`delete from ceremonies where expires_at <= $1 or hash not in
			(select hash from ceremonies order by expires_at desc limit $2)`, now, most-1); err != nil {
			return err
		}
		_, err := t.exec(`insert into ceremonies values ($1, $2, $3)`, hash, string(data), now+lifetime.Microseconds())
		return err
	})
}

// UseCeremony uses a ceremony up. The error is [ErrNotFound] if it is unknown, used or too old.
func (d *DB) UseCeremony(ctx context.Context, hash string) (data json.RawMessage, err error) {
	if err = d.Read(ctx, func(t *Tx) error { // who guesses makes nothing be written
		return t.row(`select hash from ceremonies where hash = $1`, hash).Scan(&hash)
	}); err != nil {
		return nil, err
	}
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		var text string
		if err := t.row(`delete from ceremonies where hash = $1 and expires_at > $2 returning data`, hash,
			now).Scan(&text); err != nil {
			return err
		}
		data = json.RawMessage(text)
		return nil
	})
	return data, err
}
