package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/maestro-hive/maestro/internal/safetext"
)

// Via is how an actor came in.
type Via string

// The ways in.
const (
	ViaCLI   Via = "cli"
	ViaLink  Via = "link" // a one-time link
	ViaToken Via = "token"
	ViaOIDC  Via = "oidc" // a provider of sign-ins
	ViaHook  Via = "hook" // a signed call from another system
)

// Actor is who does something.
type Actor struct {
	// Name is who it is, for people and records: user@host, an address of mail, the name of
	// a token.
	Name string `json:"name"`
	// Owner is the person who made the token, where the actor is one; empty: the actor is
	// that person.
	Owner string `json:"owner,omitempty"`
	Via   Via    `json:"via"`
	// From is the address that a request came from; empty: from this process.
	From  string `json:"from,omitempty"`
	Roles Roles  `json:"roles"`
	// Groups are those that the provider of sign-ins states, or that a token was given.
	Groups []string `json:"groups,omitempty"`
	// ReadOnly: nothing but [View] is allowed, whatever the roles are.
	ReadOnly bool `json:"read_only,omitempty"`
}

// Local is the user of this process, who can write the store's files anyway and may do
// everything.
func Local(name string) Actor {
	return Actor{Name: name, Via: ViaCLI, Roles: Roles{AllTeams: {RoleAdmin}}}
}

// Person is the person behind an actor: two tokens of one person are one person.
func (a Actor) Person() string { return cmp.Or(a.Owner, a.Name) }

// OnHost reports whether an actor is a user of a host of the store, who can write its files: by
// the command line, or by a one-time link, which only such a user can make.
func (a Actor) OnHost() bool { return a.Via == ViaCLI || a.Via == ViaLink }

type actorKey struct{}

// With returns a context in which the actor acts.
func With(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// Of returns who acts in a context; ok is false if nobody does.
func Of(ctx context.Context) (a Actor, ok bool) {
	a, ok = ctx.Value(actorKey{}).(Actor)
	return a, ok && a.Name != ""
}

// ErrNobody says that nobody is signed in.
var ErrNobody = errors.New("nobody is signed in")

// DeniedError says that somebody may not do something.
type DeniedError struct {
	// Actor is who may not; empty: nobody is signed in.
	Actor      string
	Permission Permission
	// Team is the one that it concerns, [NoTeam] or [AllTeams].
	Team string
	// Roles are those of which one would be enough; none where ReadOnly denies it.
	Roles    []Role
	ReadOnly bool
	// Groups are those of which a member is needed, whatever the roles are.
	Groups []string
}

// Error says which role is missing.
func (e *DeniedError) Error() string {
	of := ""
	switch e.Team {
	case NoTeam:
		if e.Permission != View {
			of = " for all teams"
		}
	case AllTeams:
		of = " for all teams"
	default:
		of = " for team " + safetext.Clip(e.Team, 80)
	}
	switch {
	case e.Actor == "":
		return ErrNobody.Error() + "; sign in, or send a token"
	case len(e.Groups) > 0:
		return fmt.Sprintf("%s may not %s here: a member of %s is needed", safetext.Clip(e.Actor, 80), e.Permission, safetext.Clip(strings.Join(e.Groups, " or "), 300))
	case e.ReadOnly:
		return "this server is read-only: nothing can be changed here"
	}
	words := make([]string, len(e.Roles))
	for i, r := range e.Roles {
		words[i] = string(r)
	}
	return fmt.Sprintf("%s may not %s: the role %s%s is missing; an admin can give it",
		safetext.Clip(e.Actor, 80), e.Permission, strings.Join(words, " or "), of)
}

// Is reports that an error of nobody is [ErrNobody].
func (e *DeniedError) Is(target error) bool { return target == ErrNobody && e.Actor == "" }

// Check returns a [*DeniedError] unless the actor in the context has a permission for a team,
// [NoTeam] or [AllTeams].
func Check(ctx context.Context, p Permission, team string) error {
	a, ok := Of(ctx)
	switch {
	case !ok:
		return &DeniedError{Permission: p, Team: team, Roles: permitted[p]}
	case a.ReadOnly && p != View:
		return &DeniedError{Actor: a.Name, Permission: p, Team: team, ReadOnly: true}
	case !a.Roles.Allow(p, team):
		return &DeniedError{Actor: a.Name, Permission: p, Team: team, Roles: permitted[p]}
	}
	return nil
}

// checkAdmin returns a [*DeniedError] unless the actor is an admin of all teams or of one.
func checkAdmin(ctx context.Context) error {
	err := Check(ctx, Admin, AllTeams)
	if a, ok := Of(ctx); ok && !a.ReadOnly && a.Roles.anywhere(RoleAdmin) {
		return nil
	}
	return err
}

// Visible returns whether the actor in the context may view what is a team's: the filter of
// lists and sums. What belongs to an unknown team is shown to roles for all teams only.
func Visible(ctx context.Context) func(team string) bool {
	return func(team string) bool {
		return Check(ctx, View, cmp.Or(team, AllTeams)) == nil
	}
}
