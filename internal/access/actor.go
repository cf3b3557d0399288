package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// Via is how an actor was authenticated.
type Via = state.Via

// The ways of authentication.
const (
	ViaCLI   Via = "cli"
	ViaLink  Via = "link" // a one-time link
	ViaToken Via = "token"
	ViaAgent Via = "agent" // a token of an agent, which is no person
	ViaOIDC  Via = "oidc"  // a provider of sign-ins
	ViaHook  Via = "hook"  // a signed call from another system
	// ViaAccount is an account of this installation, by a password or a passkey.
	ViaAccount = state.ViaAccount
)

// Actor is the person, token or hook that makes a request.
type Actor struct {
	// Name identifies the actor for people and records: user@host, an email address, the name of
	// a token, "one-time link" with its id.
	Name string `json:"name"`
	// Owner is the person who made the token or the link, where the actor is one; empty: the actor
	// is that person.
	Owner string `json:"owner,omitempty"`
	// Program is how a program uses the actor's rights: mcp, or mcp/ with the name that the program states; empty: no program is
	// known to do so.
	Program string `json:"program,omitempty"`
	// PersonID identifies the person of the actor also under another name: it is computed from the
	// issuer and the subject of a provider of sign-ins. Empty: only the name identifies the person.
	PersonID string `json:"person_id,omitempty"`
	Via      Via    `json:"via"`
	// From is the client address of a request; empty: the actor is in this process.
	From  string `json:"from,omitempty"`
	Roles Roles  `json:"roles"`
	// Groups are the groups from the OIDC provider, or those of a token.
	Groups []string `json:"groups,omitempty"`
	// ReadOnly: nothing but [View] is allowed, whatever the roles are.
	ReadOnly bool `json:"read_only,omitempty"`
}

// Local is the user of this process, who can write the store's files anyway and may do
// everything.
func Local(name string) Actor {
	return Actor{Name: name, Via: ViaCLI, Roles: Roles{AllTeams: {RoleAdmin}}}
}

// ProgramMCP is the program of an actor whose rights an agent uses over MCP.
const ProgramMCP = "mcp"

// String names the actor in records: whose token it is, who made a link, and that a program acted.
func (a Actor) String() string { return describe(a.Name, a.Owner, a.Program, a.Via) }

func describe(name, owner, program string, via Via) string {
	switch {
	case owner == "":
	case via == ViaLink: // nobody knows who has followed it
		name += ", made by " + owner
	case via == ViaToken:
		name += ", a token of " + owner
	case via == ViaAgent:
		name = textfmt.Over(owner, textfmt.Agent+name)
	}
	return textfmt.Over(name, program)
}

// Over is how an agent uses the rights of the actor's person, for records that have the person's name beside it; empty: the
// person acts.
func (a Actor) Over() string {
	if a.Program == "" && a.Via == ViaAgent {
		return textfmt.Agent + a.Name
	}
	return a.Program
}

// Person returns the name of the person of an actor: the owner of a token or a link, otherwise the
// actor.
func (a Actor) Person() string { return cmp.Or(a.Owner, a.Name) }

// Identity returns what identifies the person of an actor: PersonID, otherwise the name.
func (a Actor) Identity() string { return cmp.Or(a.PersonID, a.Person()) }

// OnHost reports whether an actor is a user of a host of the store, who can write its files: by
// the command line, or by a one-time link that such a user has made for nobody else.
func (a Actor) OnHost() bool { return a.Via == ViaCLI || a.Via == ViaLink && a.Owner != "" }

type actorKey struct{}

// With returns a context with an actor.
func With(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// Of returns the actor of a context; ok is false if there is none.
func Of(ctx context.Context) (a Actor, ok bool) {
	a, ok = ctx.Value(actorKey{}).(Actor)
	return a, ok && a.Name != ""
}

// ErrNotSignedIn means that the request has no credential.
var ErrNotSignedIn = errors.New("not signed in")

// DeniedError means that an actor does not have a permission.
type DeniedError struct {
	// Actor is who is denied; empty: not signed in.
	Actor      string
	Permission Permission
	// Team is the team of the operation, [NoTeam] or [AllTeams].
	Team string
	// Roles are the sufficient roles: one of them is needed. None if ReadOnly denies it.
	Roles    []Role
	ReadOnly bool
	// Groups are the groups of which a member is needed, besides the roles.
	Groups []string
	// Person: only a person may do it, and the actor is a program.
	Person bool
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
	case hiddenTeam:
		of = " for its team, if it exists,"
	default:
		of = " for team " + safetext.Clip(e.Team, 80)
	}
	switch {
	case e.Actor == "":
		return ErrNotSignedIn.Error() + "; sign in, or send a token"
	case e.Person && e.Permission == Admin:
		return safetext.Clip(e.Actor, 80) + " may not invite people or give them roles: an agent would become a person"
	case e.Person:
		return fmt.Sprintf("%s may not %s here: the approvals of persons count, so a person has to answer in the dashboard or with "+
			"`maestro %s`",
			safetext.Clip(e.Actor, 80), e.Permission, e.Permission)
	case len(e.Groups) > 0:
		return fmt.Sprintf("%s may not %s here: a member of %s is needed", safetext.Clip(e.Actor, 80), e.Permission,
			safetext.Clip(strings.Join(e.Groups, " or "), 300))
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

// Hide gives the denial of an actor who may not view the team the same text for every team, and for what does not exist.
func Hide(ctx context.Context, err error) error {
	if denied, ok := errors.AsType[*DeniedError](err); ok && Check(ctx, View, denied.Team) != nil {
		denied.Team = hiddenTeam
	}
	return err
}

// Is reports that a denial without an actor is [ErrNotSignedIn].
func (e *DeniedError) Is(target error) bool { return target == ErrNotSignedIn && e.Actor == "" }

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
	if a, ok := Of(ctx); ok && a.MayAnywhere(Admin) {
		return nil
	}
	return err
}

// MayAnywhere reports whether an actor may change something of this kind for some team.
func (a Actor) MayAnywhere(p Permission) bool {
	return !a.ReadOnly && slices.ContainsFunc(permitted[p], a.Roles.anywhere)
}

// Visible returns whether the actor in the context may view what is a team's: the filter of
// lists and sums. What belongs to an unknown team is shown to roles for all teams only.
func Visible(ctx context.Context) func(team string) bool {
	return func(team string) bool {
		return Check(ctx, View, cmp.Or(team, AllTeams)) == nil
	}
}
