package control

import (
	"context"
	"errors"

	"github.com/maestro-hive/maestro/internal/access"
)

// PersonList is the people whom the caller may manage, by name.
type PersonList struct {
	People []access.Person `json:"people"`
}

// ofPeople asks the people who have accounts.
func ofPeople[T any](a Access, do func(*access.People) (T, error)) (doc T, err error) {
	doc, err = do(access.NewPeople(a.Store.State, a.Audit, a.Now))
	if errors.Is(err, access.ErrNoServer) {
		err = unavailablef("%w", err)
	}
	return doc, nameError(err)
}

// People lists the people whom the caller may manage.
func (a Access) People(ctx context.Context) (PersonList, error) {
	return ofPeople(a, func(people *access.People) (PersonList, error) {
		all, err := people.List(ctx)
		return PersonList{append([]access.Person{}, all...)}, err
	})
}

// Person reads the account of a person whom the caller may manage.
func (a Access) Person(ctx context.Context, name string) (access.Account, error) {
	return ofPeople(a, func(people *access.People) (access.Account, error) { return people.Show(ctx, name) })
}

// Own reads the caller's account; it has no name for a caller without one.
func (a Access) Own(ctx context.Context) (access.Account, error) {
	return ofPeople(a, func(people *access.People) (access.Account, error) { return people.Own(ctx) })
}

// InvitePerson makes an account, and a link that is not stored.
func (a Access) InvitePerson(ctx context.Context, in access.NewPerson) (access.Person, error) {
	return ofPeople(a, func(people *access.People) (access.Person, error) { return people.Invite(ctx, in) })
}

// SetPersonRoles gives a person other roles with immediate effect.
func (a Access) SetPersonRoles(ctx context.Context, name string, in access.PersonRoles) (access.Person, error) {
	return ofPeople(a, func(people *access.People) (access.Person, error) { return people.SetRoles(ctx, name, in) })
}

// ResetPerson makes a link with which a person recovers the account.
func (a Access) ResetPerson(ctx context.Context, name string) (access.Person, error) {
	return ofPeople(a, func(people *access.People) (access.Person, error) { return people.Reset(ctx, name) })
}

// RevokePerson ends a person's account with immediate effect.
func (a Access) RevokePerson(ctx context.Context, name string) (access.Person, error) {
	return ofPeople(a, func(people *access.People) (access.Person, error) { return people.Revoke(ctx, name) })
}
