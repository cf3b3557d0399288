package control

import (
	"cmp"
	"context"
	"errors"

	"github.com/maestro-hive/maestro/internal/access"
)

// Access has the tokens and the audit log of a store.
type Access struct{ *Base }

// Events lists the events of the audit log that a filter selects, newest first. An admin of a team
// may read the team's.
func (a Access) Events(ctx context.Context, f access.EventFilter, cursor string) (access.EventPage, error) {
	if err := access.Check(ctx, access.Admin, cmp.Or(f.Team, access.AllTeams)); err != nil {
		return access.EventPage{}, err
	}
	if _, err := a.stored(); err != nil {
		return access.EventPage{}, err
	}
	page, err := a.Audit.Events(ctx, f, cursor)
	if errors.Is(err, access.ErrCursor) {
		err = invalidf("cursor", "%w", err)
	}
	return page, err
}

// Tokens lists the tokens that the caller may manage, sorted by name.
func (a Access) Tokens(ctx context.Context) ([]access.Token, error) {
	tokens, err := a.tokens()
	if err != nil {
		return nil, err
	}
	return tokens.List(ctx)
}

// CreateToken makes a token with roles in the form of the command line. It returns the secret,
// which is not stored.
func (a Access) CreateToken(ctx context.Context, grants []string, n access.NewToken) (secret string, made access.Token, err error) {
	tokens, err := a.tokens()
	if err != nil {
		return "", made, err
	}
	if n.Roles, err = access.ParseRoles(grants...); err != nil {
		return "", made, invalidf("roles", "%w", err)
	}
	secret, made, err = tokens.Create(ctx, n)
	return secret, made, nameError(err)
}

// RevokeToken revokes a token with immediate effect.
func (a Access) RevokeToken(ctx context.Context, id string) (access.Token, error) {
	tokens, err := a.tokens()
	if err != nil {
		return access.Token{}, err
	}
	revoked, err := tokens.Revoke(ctx, id)
	return revoked, nameError(err)
}

func (a Access) tokens() (*access.Tokens, error) {
	s, err := a.stored()
	if err != nil {
		return nil, err
	}
	return access.NewTokens(s.State, a.Audit), nil
}

func nameError(err error) error {
	var refused *access.NameError
	if !errors.As(err, &refused) {
		return err
	}
	if refused.Unknown {
		return notFoundf("%w", err)
	}
	return invalidf("name", "%w", err)
}
