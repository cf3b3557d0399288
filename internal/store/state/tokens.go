package state

import (
	"context"
	"time"
)

// Role is what somebody may do for a team.
type Role string

// Token is a row of the tokens.
type Token struct {
	// Hash is that of the secret.
	Hash string `json:"-"`
	ID   string `json:"id"`
	Name string `json:"name"`
	// Roles are those for each team.
	Roles map[string][]Role `json:"roles"`
	// Groups are those that the token is a member of.
	Groups []string `json:"groups,omitempty"`
	// By is who created it, and ByID identifies this person also under another name.
	By   string `json:"by" sql:"by_person"`
	ByID string `json:"by_id,omitempty"`
	// Agent: its holder is an agent, and no person.
	Agent     bool      `json:"agent,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	// ExpiresAt is null for a token that does not expire.
	ExpiresAt *time.Time `json:"expires_at"`
	// LastUsed is the day, by UTC, on which it was last used; empty: it was not.
	LastUsed  string     `json:"last_used"`
	RevokedAt *time.Time `json:"revoked_at"`
	RevokedBy string     `json:"revoked_by,omitempty"`
}

// State is active, expired or revoked, for display: requests are checked by [active].
func (k Token) State(now time.Time) string {
	switch {
	case k.RevokedAt != nil:
		return "revoked"
	case k.ExpiresAt != nil && !now.Before(*k.ExpiresAt):
		return "expired"
	}
	return "active"
}

// active is the condition that a token can be used at the time $1.
const active = `revoked_at is null and (expires_at is null or expires_at > $1)`

// AddToken adds a token that expires after a lifetime; zero: never. Tokens that ended longer than kept ago are deleted
// before. taken is the id of an active token with the name: then nothing is added.
func (d *DB) AddToken(ctx context.Context, n Token, lifetime, kept time.Duration) (made Token, taken string, err error) {
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		taken = ""
		if err := t.lock("tokens"); err != nil {
			return err
		}
		if _, err := t.exec(`delete from tokens where revoked_at < $1 or expires_at < $1`, now-kept.Microseconds()); err != nil {
			return err
		}
		if err := t.row(`select id from tokens where `+active+` and name = $2`, now, n.Name).Scan(&taken); !isNoRows(err) {
			return err
		}
		made = n
		if made.CreatedAt = timeOf(now); lifetime > 0 {
			made.ExpiresAt = new(made.CreatedAt.Add(lifetime))
		}
		return t.insert("tokens", columnsOf(&made))
	})
	return made, taken, err
}

// Tokens lists the tokens by name, the newest first.
func (d *DB) Tokens(ctx context.Context) ([]Token, error) {
	return list[Token](ctx, d, "tokens", "order by name, created_at desc")
}

// Token reads the token with an id.
func (d *DB) Token(ctx context.Context, id string) (Token, error) {
	return one[Token](ctx, d, "tokens", "where id = $1", id)
}

// RevokeToken ends a token, and returns it. A repetition changes nothing.
func (d *DB) RevokeToken(ctx context.Context, id, by string) (k Token, err error) {
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		if _, err := t.exec(`update tokens set revoked_at = $2, revoked_by = $3 where id = $1 and revoked_at is null`, id, now,
			by); err != nil {
			return err
		}
		return t.get(&k, "tokens", "where id = $1", id)
	})
	return k, err
}

// UseToken finds the active token whose secret has a hash, and notes the day of its use.
func (d *DB) UseToken(ctx context.Context, hash string) (k Token, err error) {
	var today string
	err = d.readAt(ctx, func(t *Tx, now int64) error {
		today = dayOf(now)
		return t.get(&k, "tokens", "where "+active+" and hash = $2", now, hash)
	})
	if err == nil && k.LastUsed < today {
		// the next use tries again
		_ = d.exec(ctx, `update tokens set last_used = $2 where hash = $1 and last_used < $2`, hash, today)
	}
	return k, err
}
