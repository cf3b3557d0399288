package httpapi

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// tokensPath is the path of tokens. Answers with a secret are not stored, so changes of tokens take
// no idempotency key.
const tokensPath = "/tokens"

// auditInput selects events of the audit log.
type auditInput struct {
	Since   time.Time `query:"since" doc:"only events at this time or later"`
	Until   time.Time `query:"until" doc:"only events before this time"`
	Actor   string    `query:"actor" maxLength:"300" doc:"only what this person or token did, and the tokens of this person"`
	Session string    `query:"session" maxLength:"200" doc:"only events of this session"`
	Team    string    `query:"team" maxLength:"100" doc:"only events of this team"`
	Action  string    `query:"action" maxLength:"100" doc:"only this action, like session.cancel, or those of a noun, like session"`
	Cursor  string    `query:"cursor" maxLength:"100" doc:"continue after the page that ended with this cursor"`
	Limit   int       `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"how many at most"`
}

// tokenInput are the properties of a new token.
type tokenInput struct {
	Body struct {
		Name  string   `json:"name" minLength:"1" maxLength:"63" doc:"letters, digits, - and _"`
		Roles []string `json:"roles" minItems:"1" maxItems:"100" doc:"ROLE for all teams, or ROLE:TEAM"`
		// Groups are those of teams' approvals.
		Groups []string `json:"groups,omitempty" maxItems:"20" doc:"groups that the token is a member of, as in approve.by of a phase; an admin of some teams can give only the admin's own groups"`
		// For is how long it is good.
		For textfmt.Duration `json:"for,omitempty" doc:"how long it is good; left out: until it is revoked"`
	}
}

// ofToken is the input of an operation on a token.
type ofToken struct {
	ID string `path:"id" maxLength:"40" doc:"the token's id"`
}

// tokenDocument is a token with its state.
type tokenDocument struct {
	access.Token
	State  string `json:"state" enum:"active,expired,revoked"`
	Secret string `json:"token,omitempty" doc:"the token itself, in the answer that creates it only"`
}

// tokenList is the tokens that the caller may manage.
type tokenList struct {
	Tokens []tokenDocument `json:"tokens"`
}

// roles, tokens and the audit log.
func who(api huma.API, a control.Access) {
	register(api, operation("GET /me", "read-me", "Read who calls, and the roles"),
		func(ctx context.Context, _ *none) (access.Actor, error) {
			actor, ok := access.Of(ctx)
			if !ok {
				return actor, access.ErrNotSignedIn
			}
			return actor, nil
		})
	register(api, operation("GET /audit", "list-audit", "List who changed what, newest first; for admins"),
		func(ctx context.Context, in *auditInput) (access.EventPage, error) {
			return a.Events(ctx, access.EventFilter{
				Since: in.Since, Until: in.Until, Actor: in.Actor, Session: in.Session, Team: in.Team, Action: in.Action, Limit: in.Limit,
			}, in.Cursor)
		})
	register(api, operation("GET "+tokensPath, "list-tokens", "List tokens, without their secrets; for admins"),
		func(ctx context.Context, _ *none) (tokenList, error) {
			tokens, err := a.Tokens(ctx)
			list := tokenList{[]tokenDocument{}}
			for _, t := range tokens {
				list.Tokens = append(list.Tokens, tokenDocument{Token: t, State: t.State(a.Now())})
			}
			return list, err
		})
	register(api, operation("POST "+tokensPath, "create-token", "Create a token; its secret is in this answer only. An Idempotency-Key does not count"),
		func(ctx context.Context, in *tokenInput) (tokenDocument, error) {
			secret, made, err := a.CreateToken(ctx, in.Body.Roles, access.NewToken{Name: in.Body.Name, Groups: in.Body.Groups, Lifetime: in.Body.For.Std()})
			return tokenDocument{made, made.State(a.Now()), secret}, err
		})
	register(api, operation("DELETE "+tokensPath+"/{id}", "revoke-token", "Revoke a token, at once"),
		func(ctx context.Context, in *ofToken) (tokenDocument, error) {
			revoked, err := a.RevokeToken(ctx, in.ID)
			return tokenDocument{Token: revoked, State: revoked.State(a.Now())}, err
		})
}
