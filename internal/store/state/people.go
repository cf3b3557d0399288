package state

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"
)

// ViaAccount is the way of authentication of people who have accounts.
const ViaAccount Via = "account"

// Person is a row of the people who have accounts.
type Person struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Roles are those for each team.
	Roles map[string][]Role `json:"roles"`
	// Groups are those that the person is a member of.
	Groups []string `json:"groups,omitempty"`
	// Password is what is stored of the password; empty: there is none.
	Password string `json:"-"`
	// By is who invited the person, and ByID identifies the inviter also under another name.
	By        string    `json:"by" sql:"by_person"`
	ByID      string    `json:"by_id,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	// JoinedAt is when the person used the invitation; null: not yet.
	JoinedAt *time.Time `json:"joined_at"`
	// SignedInAt is the last sign-in; null: there was none.
	SignedInAt *time.Time `json:"signed_in_at"`
	RevokedAt  *time.Time `json:"revoked_at"`
	RevokedBy  string     `json:"revoked_by,omitempty"`
}

// State is invited, active or revoked.
func (p Person) State() string {
	switch {
	case p.RevokedAt != nil:
		return "revoked"
	case p.JoinedAt == nil:
		return "invited"
	}
	return "active"
}

// Purpose is what an invitation is for.
type Purpose string

// The purposes.
const (
	// ForAccount makes an account usable, and ForRecovery makes it usable again and ends what it had before.
	ForAccount  Purpose = "account"
	ForRecovery Purpose = "recovery"
	// ForDevice adds a passkey on another device.
	ForDevice Purpose = "device"
)

// Invitation is a link for one person.
type Invitation struct {
	// Hash is that of the code, and Person the id of whom it is for.
	Hash, Person string
	Purpose      Purpose
}

// AddPerson adds a person with an invitation. taken: there is one with the name, in capital or small letters, and nothing is
// added. One-time links that were made for the name end, with their browsers.
func (d *DB) AddPerson(ctx context.Context, n Person, inv Invitation, lifetime time.Duration) (made Person, taken bool,
	err error,
) {
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		made = n
		made.CreatedAt = timeOf(now)
		added, err := t.insertNew("people", columnsOf(&made))
		if taken = err == nil && !added; taken || err != nil {
			return err
		}
		for _, statement := range []string{
			`delete from links where lower(name) = lower($1)`, `delete from browsers where via = 'link' and lower(name) = lower($1)`,
		} {
			if _, err := t.exec(statement, n.Name); err != nil {
				return err
			}
		}
		return t.invite(inv, now, lifetime)
	})
	return made, taken, err
}

// Invite adds an invitation for a person as the caller has seen it, in place of those that the person has. One for a device
// replaces only others for devices. The error is [ErrNotFound] if the person has other roles or groups meanwhile.
func (d *DB) Invite(ctx context.Context, of Person, inv Invitation, lifetime time.Duration) error {
	return d.writeAt(ctx, func(t *Tx, now int64) error {
		if err := t.unchanged(of); err != nil {
			return err
		}
		return t.invite(inv, now, lifetime)
	})
}

// unchanged returns [ErrNotFound] if a person has other roles or groups than the caller has seen.
func (t *Tx) unchanged(seen Person) error {
	var p Person
	err := t.lock("people")
	if err == nil {
		err = t.get(&p, "people", "where id = $1", seen.ID)
	}
	if err == nil && (!reflect.DeepEqual(p.Roles, seen.Roles) || !slices.Equal(p.Groups, seen.Groups)) {
		err = ErrNotFound
	}
	return err
}

func (t *Tx) invite(inv Invitation, now int64, lifetime time.Duration) error {
	if _, err := t.exec(`delete from invitations where expires_at <= $1 or person = $2 and (purpose = 'device' or $3 <> 'device')`,
		now, inv.Person, string(inv.Purpose)); err != nil {
		return err
	}
	until := now + lifetime.Microseconds()
	return t.insert("invitations", append(columnsOf(&inv), column{"expires_at", &until}))
}

// Invitation finds an invitation that can be used, and its person. It changes nothing.
func (d *DB) Invitation(ctx context.Context, hash string) (inv Invitation, p Person, err error) {
	err = d.readAt(ctx, func(t *Tx, now int64) error {
		if err := t.get(&inv, "invitations", `where hash = $1 and expires_at > $2`, hash, now); err != nil {
			return err
		}
		return t.get(&p, "people", `where id = $1`, inv.Person)
	})
	return inv, p, err
}

// Join uses an invitation up: the person has the password and the passkey from now on; either may be empty. A recovery ends
// what the person had before, and a revocation. The error is [ErrNotFound] if the invitation is unknown, used or too old.
func (d *DB) Join(ctx context.Context, inv Invitation, password string, key Passkey) error {
	return d.writeAt(ctx, func(t *Tx, now int64) error {
		err := t.execOne(`delete from invitations where hash = $1 and person = $2 and purpose = $3 and expires_at > $4`, inv.Hash,
			inv.Person, string(inv.Purpose), now)
		if err == nil && inv.Purpose == ForRecovery {
			err = t.forget(inv.Person, "", now)
		}
		if err == nil && inv.Purpose != ForDevice {
			_, err = t.exec(`update people set password = $2, joined_at = coalesce(joined_at, $3), revoked_at = null, revoked_by = '' where id = $1`, inv.Person, password, now)
		}
		if err == nil && key.ID != "" {
			key.Person = inv.Person
			err = t.addPasskey(key, now)
		}
		return err
	})
}

// forget ends what a person can sign in by, is signed in by, and has made tokens for. It is the person who does it if by is
// empty.
func (t *Tx) forget(person, by string, now int64) error {
	if _, err := t.exec(`update tokens set revoked_at = $2, revoked_by = coalesce(nullif($3, ''), by_person) where by_id = $1 and revoked_at is null`,
		person, now, by); err != nil {
		return err
	}
	for _, statement := range []string{
		`update people set password = '' where id = $1`, `delete from passkeys where person = $1`,
		`delete from browsers where person_id = $1`, `delete from invitations where person = $1`,
	} {
		if _, err := t.exec(statement, person); err != nil {
			return err
		}
	}
	return nil
}

// People lists the people by name.
func (d *DB) People(ctx context.Context) ([]Person, error) {
	return list[Person](ctx, d, "people", "order by name")
}

// Person reads the person with an id.
func (d *DB) Person(ctx context.Context, id string) (Person, error) {
	return one[Person](ctx, d, "people", "where id = $1", id)
}

// PersonNamed reads the person with a name, in capital or small letters.
func (d *DB) PersonNamed(ctx context.Context, name string) (Person, error) {
	return one[Person](ctx, d, "people", "where lower(name) = lower($1)", name)
}

// HasPeople reports whether somebody has an account.
func (d *DB) HasPeople(ctx context.Context) (bool, error) {
	_, err := one[Person](ctx, d, "people", "where joined_at is not null and revoked_at is null limit 1")
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// SetRoles gives a person, as the caller has seen it, roles and groups in place of those before. A link with which somebody
// would have the account gets another code, of which link is the hash: who made it might not have been given the new roles. until
// is when it ends; zero: there is none. The error is [ErrNotFound] if the person has other roles or groups meanwhile.
func (d *DB) SetRoles(ctx context.Context, of Person, roles map[string][]Role, groups []string, link string) (until time.Time,
	err error,
) {
	given := columns{{"roles", document{&roles}}, {"groups", document{&groups}}}
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		err := t.unchanged(of)
		if err == nil {
			_, err = t.exec("update people set "+given.assignments()+" where id = $3", append(given.values(), of.ID)...)
		}
		if err != nil {
			return err
		}
		err = t.row(`update invitations set hash = $2 where person = $1 and purpose <> 'device' and expires_at > $3
			returning expires_at`, of.ID, link, now).Scan(moment{&until})
		if isNoRows(err) {
			err = nil
		}
		return err
	})
	return until, err
}

// RevokePerson ends what a person can sign in by, and the tokens that the person has made. A repetition ends what there is since.
func (d *DB) RevokePerson(ctx context.Context, id, by string) (p Person, err error) {
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		_, err := t.exec(`update people set revoked_at = $2, revoked_by = $3 where id = $1 and revoked_at is null`, id, now, by)
		if err == nil {
			err = t.forget(id, by, now)
		}
		if err != nil {
			return err
		}
		return t.get(&p, "people", "where id = $1", id)
	})
	return p, err
}

// SetPassword sets a person's password in place of the one before, and signs the browsers out but the one with the hash keep. The
// error is [ErrNotFound] if the one before is another meanwhile.
func (d *DB) SetPassword(ctx context.Context, id, before, password, keep string) error {
	return d.Write(ctx, func(t *Tx) error {
		if err := t.execOne(`update people set password = $3 where id = $1 and password = $2 and revoked_at is null`, id, before,
			password); err != nil {
			return err
		}
		return t.signOut(id, keep)
	})
}

// signOut signs the browsers of a person out, but not the one with the hash keep, and ends links for other devices.
func (t *Tx) signOut(person, keep string) error {
	_, err := t.exec(`delete from browsers where person_id = $1 and hash <> $2`, person, keep)
	if err == nil {
		_, err = t.exec(`delete from invitations where person = $1 and purpose = 'device'`, person)
	}
	return err
}

// signIn notes a sign-in by what a person can sign in by now.
func (t *Tx) signIn(person, proof string, now int64) error {
	return t.execOne(`update people set signed_in_at = $3 where id = $1 and revoked_at is null and joined_at is not null and $2 <> ''
		and (password = $2 or exists (select 1 from passkeys where passkeys.id = $2 and passkeys.person = people.id))`, person, proof, now)
}
