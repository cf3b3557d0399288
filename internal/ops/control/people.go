package control

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// usualInvitation is for how long an invitation is good that says nothing else.
const usualInvitation = 3 * 24 * time.Hour

// NewPerson is the properties of a new account.
type NewPerson struct {
	Name   string           `json:"name" minLength:"1" maxLength:"63" doc:"letters, digits, - and _"`
	Roles  []string         `json:"roles" minItems:"1" maxItems:"100" doc:"ROLE for all teams, or ROLE:TEAM"`
	Groups []string         `json:"groups,omitempty" maxItems:"20" doc:"groups that the person is a member of, as in approve.by of a phase; an admin of some teams can give only the admin's own groups"`
	For    textfmt.Duration `json:"for,omitempty" doc:"how long the link is good, 30 days at most; left out: 3 days"`
}

// PersonRoles are what a person gets in place of what was before.
type PersonRoles struct {
	Roles  []string `json:"roles" minItems:"1" maxItems:"100" doc:"ROLE for all teams, or ROLE:TEAM"`
	Groups []string `json:"groups,omitempty" maxItems:"20" doc:"groups of the person; left out: those before"`
	// NoGroups: the person is a member of no group any more.
	NoGroups bool `json:"no_groups,omitempty" doc:"the person is a member of no group any more"`
}

// Person is a person with an account.
type Person struct {
	access.Person
	State string `json:"state" enum:"invited,active,revoked"`
	Link  string `json:"link,omitempty" doc:"the link with which the person begins, in the answer that makes it only; other roles replace a link that was not used"`
	// LinkUntil is when the link ends.
	LinkUntil *time.Time `json:"link_expires_at,omitempty" doc:"when the link ends"`
}

// PersonList is the people whom the caller may manage, by name.
type PersonList struct {
	People []Person `json:"people"`
}

// Account is a person's account, and where the person is signed in.
type Account struct {
	Person
	SignIns  []access.SignIn `json:"sign_ins" doc:"browsers that are signed in, those used last first"`
	Passkeys []state.Passkey `json:"passkeys"`
	// HasPassword: the person can sign in by a password.
	HasPassword bool `json:"has_password"`
}

// ofPeople makes a document of the people who have accounts.
func ofPeople[T any](a Access, do func(*access.People) (T, error)) (doc T, err error) {
	s, err := a.stored()
	if err == nil {
		doc, err = do(access.NewPeople(s.State, a.Audit))
	}
	if errors.Is(err, access.ErrNoServer) {
		err = unavailablef("%w", err)
	}
	return doc, nameError(err)
}

// People lists the people whom the caller may manage.
func (a Access) People(ctx context.Context) (PersonList, error) {
	return ofPeople(a, func(people *access.People) (doc PersonList, err error) {
		all, err := people.List(ctx)
		doc.People = []Person{}
		for _, p := range all {
			doc.People = append(doc.People, personDocument(p))
		}
		return doc, err
	})
}

// Person reads the account of a person whom the caller may manage.
func (a Access) Person(ctx context.Context, name string) (Account, error) {
	return ofPeople(a, func(people *access.People) (Account, error) {
		p, err := people.Show(ctx, name)
		return accountDocument(p), err
	})
}

// Own reads the caller's account; it has no name for a caller without one.
func (a Access) Own(ctx context.Context) (Account, error) {
	return ofPeople(a, func(people *access.People) (Account, error) {
		p, err := people.Own(ctx)
		return accountDocument(p), err
	})
}

// InvitePerson makes an account, and a link that is not stored.
func (a Access) InvitePerson(ctx context.Context, in NewPerson) (Person, error) {
	roles, err := access.ParseRoles(in.Roles...)
	if err != nil {
		return Person{}, invalid("roles", err)
	}
	return ofPeople(a, func(people *access.People) (Person, error) {
		lifetime := cmp.Or(in.For.Std(), usualInvitation)
		link, p, err := people.Invite(ctx, access.NewPerson{Name: in.Name, Roles: roles, Groups: in.Groups, Lifetime: lifetime})
		return Person{p, p.State(), link, new(a.Now().Add(lifetime))}, err
	})
}

// SetPersonRoles gives a person other roles with immediate effect.
func (a Access) SetPersonRoles(ctx context.Context, name string, in PersonRoles) (Person, error) {
	roles, err := access.ParseRoles(in.Roles...)
	if err != nil {
		return Person{}, invalid("roles", err)
	}
	if in.NoGroups {
		in.Groups = []string{}
	}
	return ofPeople(a, func(people *access.People) (Person, error) {
		p, err := people.SetRoles(ctx, name, roles, in.Groups)
		return Person{p.Person, p.State(), p.Link, p.Until}, err
	})
}

// ResetPerson makes a link with which a person recovers the account.
func (a Access) ResetPerson(ctx context.Context, name string) (Person, error) {
	return ofPeople(a, func(people *access.People) (Person, error) {
		link, p, err := people.Reset(ctx, name)
		return Person{p, p.State(), link, new(a.Now().Add(access.ResetLifetime))}, err
	})
}

// RevokePerson ends a person's account with immediate effect.
func (a Access) RevokePerson(ctx context.Context, name string) (Person, error) {
	return ofPeople(a, func(people *access.People) (Person, error) {
		p, err := people.Revoke(ctx, name)
		return personDocument(p), err
	})
}

func personDocument(p access.Person) Person { return Person{Person: p, State: p.State()} }

func accountDocument(a access.Account) Account {
	return Account{personDocument(a.Person), a.SignIns, a.Passkeys, a.Password != ""}
}
