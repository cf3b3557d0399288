package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store/state"
)

const (
	// TokenPrefix is what tokens begin with, so that scanners for secrets find them.
	TokenPrefix = "maestro_"

	// tokensKept is for how long tokens are listed that were revoked or have expired.
	tokensKept = 90 * 24 * time.Hour

	// usualToken is for how long a token is good that says nothing else.
	usualToken = 90 * 24 * time.Hour

	// maxTokenGroups and maxGroup bound a token's groups, and the bytes of a group's name.
	maxTokenGroups = 20
	maxGroup       = 200
)

// Token is a token without its secret.
type Token = state.Token

// Tokens are the tokens of an installation.
type Tokens struct {
	db    *state.DB
	audit *Audit
}

// NewTokens returns the tokens in a database.
func NewTokens(db *state.DB, audit *Audit) *Tokens { return &Tokens{db, audit} }

// NameError means that a token, a person or a hook does not exist, or that a new one is not valid.
type NameError struct {
	// Unknown: there is none with this name or id.
	Unknown bool
	// Field is what is not valid of a new one; empty: its name, or another property.
	Field string
	text  string
}

// Error says what is wrong.
func (e *NameError) Error() string { return e.text }

// mayManage checks that the actor may manage tokens or people with some roles: an admin of a team those
// of the team.
func mayManage(ctx context.Context, roles Roles) error {
	if len(roles) == 0 {
		return Check(ctx, Admin, AllTeams)
	}
	for _, team := range slices.Sorted(maps.Keys(roles)) {
		if err := Check(ctx, Admin, team); err != nil {
			return err
		}
	}
	return nil
}

// NewToken is the properties of a new token.
type NewToken struct {
	Name   string           `json:"name" minLength:"1" maxLength:"63" doc:"letters, digits, - and _"`
	Roles  []string         `json:"roles" minItems:"1" maxItems:"100" doc:"ROLE for all teams, or ROLE:TEAM"`
	Groups []string         `json:"groups,omitempty" maxItems:"20" doc:"groups that the token is a member of, as in approve.by of a phase; an admin of some teams can give only the admin's own groups"`
	Agent  bool             `json:"agent,omitempty" doc:"an agent has it: it counts as no person where persons have to approve"`
	For    textfmt.Duration `json:"for,omitempty" doc:"how long it is good; left out: 90 days"`
	// NeverExpires: it is good until it is revoked.
	NeverExpires bool `json:"never_expires,omitempty" doc:"it is good until it is revoked"`
}

// rolesOf reads the roles of a new token or a person.
func rolesOf(grants []string) (Roles, error) {
	roles, err := ParseRoles(grants...)
	if err != nil {
		err = &NameError{Field: "roles", text: err.Error()}
	}
	return roles, err
}

// check refuses a token that cannot be.
func (n NewToken) check() error {
	if err := spec.CheckName(n.Name); err != nil {
		return &NameError{text: "name of the token: " + err.Error()}
	}
	if len(n.Roles) == 0 || n.For < 0 {
		return &NameError{text: "a token needs at least one role, and a time to expire that is not past"}
	}
	return checkGroups(n.Groups)
}

// checkGroups refuses groups that cannot be.
func checkGroups(groups []string) error {
	for _, group := range groups {
		if strings.TrimSpace(group) == "" || len(group) > maxGroup || safetext.Line(group) != group || len(groups) > maxTokenGroups {
			return &NameError{text: fmt.Sprintf("group %q: there may be at most %d groups, and a group's name is one line of at "+
				"most %d bytes", textfmt.Shorten(group, 80), maxTokenGroups, maxGroup)}
		}
	}
	return nil
}

// grants are roles and groups, for the audit log.
func grants(roles Roles, groups []string) string {
	all := roles.Grants()
	for _, group := range groups {
		all = append(all, "group "+textfmt.Shorten(group, maxGroup))
	}
	return strings.Join(all, ", ")
}

// mayGive checks that the actor may give roles and groups to a token or a person: an admin of some teams gives no group
// but their own.
func mayGive(ctx context.Context, roles Roles, groups []string) error {
	err := mayManage(ctx, roles)
	actor, _ := Of(ctx)
	if slices.ContainsFunc(groups, func(group string) bool { return !slices.Contains(actor.Groups, group) }) {
		err = cmp.Or(err, Check(ctx, Admin, AllTeams))
	}
	return err
}

// Create makes a token. It returns the secret, which is stored nowhere.
func (t *Tokens) Create(ctx context.Context, n NewToken) (secret string, made Token, err error) {
	roles, err := rolesOf(n.Roles)
	if err != nil {
		return "", made, err
	}
	event := Event{Action: "token.create", Subject: n.Name, Detail: grants(roles, n.Groups)}
	if err := mayGive(ctx, roles, n.Groups); err != nil {
		t.audit.deny(ctx, event, err)
		return "", made, err
	}
	if err := n.check(); err != nil {
		return "", made, err
	}
	lifetime := cmp.Or(n.For.Std(), usualToken)
	if n.NeverExpires {
		lifetime = 0
	}
	actor, _ := Of(ctx)
	secret = TokenPrefix + newSecret()
	k := Token{
		Hash: hashOf(secret), ID: newID(), Name: n.Name, Roles: roles, Groups: n.Groups, By: actor.Person(),
		ByID: actor.PersonID, Agent: n.Agent || actor.Over() != "",
	}
	if k.Agent {
		event.Detail += ", an agent"
	}
	err = t.audit.do(ctx, event, func(ctx context.Context) (err error) {
		var taken string
		made, taken, err = t.db.AddToken(ctx, k, lifetime, tokensKept)
		if taken != "" {
			return &NameError{text: fmt.Sprintf("token %s exists already, with the id %s; choose another name, or revoke that one", n.Name,
				taken)}
		}
		return err
	})
	if err != nil {
		return "", Token{}, err
	}
	return secret, made, nil
}

// List returns the tokens that the actor may manage, sorted by name, the newest first.
func (t *Tokens) List(ctx context.Context) ([]Token, error) {
	if err := checkAdmin(ctx); err != nil {
		return nil, err
	}
	all, err := t.db.Tokens(ctx)
	tokens := []Token{}
	for _, k := range all {
		if mayManage(ctx, k.Roles) == nil {
			tokens = append(tokens, k)
		}
	}
	return tokens, err
}

// Revoke ends a token, by its id, at once. It returns the token.
func (t *Tokens) Revoke(ctx context.Context, id string) (revoked Token, err error) {
	k, err := t.db.Token(ctx, id)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return revoked, err
	}
	event := Event{Action: "token.revoke", Subject: cmp.Or(k.Name, id), Detail: id}
	if err := mayManage(ctx, k.Roles); err != nil {
		t.audit.deny(ctx, event, err)
		return revoked, err
	}
	if err != nil {
		return revoked, &NameError{Unknown: true, text: fmt.Sprintf("token %q not found; `maestro token list` has the ids",
			textfmt.Shorten(id, 80))}
	}
	if k.RevokedAt != nil {
		return k, nil
	}
	actor, _ := Of(ctx)
	err = t.audit.do(ctx, event, func(ctx context.Context) error {
		k, err = t.db.RevokeToken(ctx, id, actor.Name)
		return err
	})
	return k, err
}

// maxSecret is longer than any token.
const maxSecret = 200

// find returns the active token with a secret, or errInvalid. It is looked up by its hash: how long that
// takes says nothing of the secret. It permits no more than its owner may now, if the owner has an account.
func (t *Tokens) find(ctx context.Context, secret string) (Token, error) {
	if !strings.HasPrefix(secret, TokenPrefix) || len(secret) > maxSecret {
		return Token{}, errInvalid
	}
	token, err := t.db.UseToken(ctx, hashOf(secret))
	if errors.Is(err, state.ErrNotFound) {
		err = errInvalid
	}
	if err != nil || token.ByID == "" {
		return token, err
	}
	owner, err := t.db.Person(ctx, token.ByID)
	switch {
	case errors.Is(err, state.ErrNotFound): // a person of a provider
		return token, nil
	case err == nil && owner.RevokedAt != nil:
		err = errInvalid
	}
	token.Roles = Roles(token.Roles).capped(owner.Roles)
	if !Roles(owner.Roles).Allow(Admin, AllTeams) { // who gives any group
		token.Groups = slices.DeleteFunc(token.Groups, func(group string) bool { return !slices.Contains(owner.Groups, group) })
	}
	return token, err
}
