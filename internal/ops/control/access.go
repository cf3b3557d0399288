package control

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Access has the tokens and the audit log of a store.
type Access struct{ *Base }

// Me is who calls.
func (a Access) Me(ctx context.Context) (access.Actor, error) {
	actor, ok := access.Of(ctx)
	if !ok {
		return actor, access.ErrNotSignedIn
	}
	return actor, nil
}

// Events lists the events of the audit log that a filter selects, newest first. An admin of a team
// may read the team's.
func (a Access) Events(ctx context.Context, in access.EventFilter) (access.EventPage, error) {
	if err := access.Check(ctx, access.Admin, cmp.Or(in.Team, access.AllTeams)); err != nil {
		return access.EventPage{}, err
	}
	if _, err := a.stored(); err != nil {
		return access.EventPage{}, err
	}
	page, err := a.Audit.Events(ctx, in)
	if errors.Is(err, access.ErrCursor) {
		err = invalid("cursor", err)
	}
	return page, err
}

// usualToken is for how long a token is good that says nothing else.
const usualToken = 90 * 24 * time.Hour

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

// Token is a token with its state.
type Token struct {
	access.Token
	State  string `json:"state" enum:"active,expired,revoked"`
	Secret string `json:"token,omitempty" doc:"the token itself, in the answer that creates it only"`
}

// TokenList is the tokens that the caller may manage, sorted by name.
type TokenList struct {
	Tokens []Token `json:"tokens"`
}

// Tokens lists the tokens that the caller may manage.
func (a Access) Tokens(ctx context.Context) (TokenList, error) {
	doc := TokenList{Tokens: []Token{}}
	tokens, err := a.tokens()
	if err != nil {
		return doc, err
	}
	all, err := tokens.List(ctx)
	for _, t := range all {
		doc.Tokens = append(doc.Tokens, Token{Token: t, State: t.State(a.Now())})
	}
	return doc, err
}

// CreateToken makes a token. Its secret is not stored.
func (a Access) CreateToken(ctx context.Context, in NewToken) (Token, error) {
	tokens, err := a.tokens()
	if err != nil {
		return Token{}, err
	}
	roles, err := access.ParseRoles(in.Roles...)
	if err != nil {
		return Token{}, invalid("roles", err)
	}
	lifetime := cmp.Or(in.For.Std(), usualToken)
	if in.NeverExpires {
		lifetime = 0
	}
	secret, made, err := tokens.Create(ctx, access.NewToken{
		Name: in.Name, Roles: roles, Groups: in.Groups, Agent: in.Agent,
		Lifetime: lifetime,
	})
	return Token{made, made.State(a.Now()), secret}, nameError(err)
}

// RevokeToken revokes a token with immediate effect.
func (a Access) RevokeToken(ctx context.Context, id string) (Token, error) {
	tokens, err := a.tokens()
	if err != nil {
		return Token{}, err
	}
	revoked, err := tokens.Revoke(ctx, id)
	return Token{Token: revoked, State: revoked.State(a.Now())}, nameError(err)
}

func (a Access) tokens() (*access.Tokens, error) {
	s, err := a.stored()
	if err != nil {
		return nil, err
	}
	return access.NewTokens(s.State, a.Audit), nil
}

func nameError(err error) error {
	refused, ok := errors.AsType[*access.NameError](err)
	switch {
	case !ok:
		return err
	case refused.Unknown:
		return notFoundf("%w", err)
	}
	return invalid("name", err)
}
