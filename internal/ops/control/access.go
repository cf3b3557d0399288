package control

import (
	"cmp"
	"context"
	"errors"

	"github.com/maestro-hive/maestro/internal/access"
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
	page, err := a.Audit.Events(ctx, in)
	if errors.Is(err, access.ErrCursor) {
		err = invalid("cursor", err)
	}
	return page, err
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
	all, err := a.tokens().List(ctx)
	for _, t := range all {
		doc.Tokens = append(doc.Tokens, Token{Token: t, State: t.State(a.Now())})
	}
	return doc, err
}

// CreateToken makes a token. Its secret is not stored.
func (a Access) CreateToken(ctx context.Context, in access.NewToken) (Token, error) {
	secret, made, err := a.tokens().Create(ctx, in)
	return Token{made, made.State(a.Now()), secret}, nameError(err)
}

// RevokeToken revokes a token with immediate effect.
func (a Access) RevokeToken(ctx context.Context, id string) (Token, error) {
	revoked, err := a.tokens().Revoke(ctx, id)
	return Token{Token: revoked, State: revoked.State(a.Now())}, nameError(err)
}

func (a Access) tokens() *access.Tokens { return access.NewTokens(a.Store.State, a.Audit) }

func nameError(err error) error {
	refused, ok := errors.AsType[*access.NameError](err)
	switch {
	case !ok:
		return err
	case refused.Unknown:
		return notFoundf("%w", err)
	}
	return invalid(cmp.Or(refused.Field, "name"), err)
}
