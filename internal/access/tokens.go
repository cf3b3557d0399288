package access

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

const (
	tokensKey = "access/tokens.json"

	// TokenPrefix is what tokens begin with, so that scanners for secrets find them.
	TokenPrefix = "maestro_"

	// maxTokens are known at once, with those that were revoked or have expired less than
	// tokensKept ago.
	maxTokens  = 2000
	tokensKept = 90 * 24 * time.Hour

	// maxTokenGroups and maxGroup bound a token's groups, and the bytes of a group's name.
	maxTokenGroups = 20
	maxGroup       = 200
)

// Token is a token without its secret.
type Token struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Roles Roles  `json:"roles"`
	// Groups are those that the token is a member of.
	Groups []string `json:"groups,omitempty"`
	// By is who created it, and ByID identifies this person also under another name.
	By        string    `json:"by"`
	ByID      string    `json:"by_id,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	// ExpiresAt is null for a token that does not expire.
	ExpiresAt *time.Time `json:"expires_at"`
	// LastUsed is the day, by UTC, on which it was last used; empty: it was not.
	LastUsed  string     `json:"last_used"`
	RevokedAt *time.Time `json:"revoked_at"`
	RevokedBy string     `json:"revoked_by,omitempty"`
}

// State is active, expired or revoked.
func (t Token) State(now time.Time) string {
	switch {
	case t.RevokedAt != nil:
		return "revoked"
	case t.ExpiresAt != nil && !now.Before(*t.ExpiresAt):
		return "expired"
	}
	return "active"
}

// isRemovable reports whether a token has been revoked or has expired for a long time.
func (t Token) isRemovable(now time.Time) bool {
	long := now.Add(-tokensKept)
	return t.RevokedAt != nil && t.RevokedAt.Before(long) || t.ExpiresAt != nil && t.ExpiresAt.Before(long)
}

// Tokens are the tokens of a store, each under the hash of its secret.
type Tokens struct {
	known *register[Token]
	audit *Audit
	now   func() time.Time
}

// NewTokens returns the tokens in a store's storage.
func NewTokens(docs storage.Storage, audit *Audit, now func() time.Time) *Tokens {
	return &Tokens{newRegister[Token](docs, tokensKey, now), audit, now}
}

// TokenError means that a token does not exist, or that a new one is not valid.
type TokenError struct {
	// Unknown: there is no such token.
	Unknown bool
	text    string
}

// Error says what is wrong.
func (e *TokenError) Error() string { return e.text }

// mayManage checks that the actor may manage tokens with some roles: an admin of a team those
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

// NewToken has the parameters of a new token.
type NewToken struct {
	Name  string
	Roles Roles
	// Groups are those that it is a member of.
	Groups []string
	// Lifetime is how long it is good; zero: until it is revoked.
	Lifetime time.Duration
}

// check refuses a token that cannot be.
func (n NewToken) check() error {
	if err := spec.CheckName(n.Name); err != nil {
		return &TokenError{text: "name of the token: " + err.Error()}
	}
	if len(n.Roles) == 0 || n.Lifetime < 0 {
		return &TokenError{text: "a token needs at least one role, and a time to expire that is not past"}
	}
	for _, group := range n.Groups {
		if strings.TrimSpace(group) == "" || len(group) > maxGroup || safetext.Line(group) != group || len(n.Groups) > maxTokenGroups {
			return &TokenError{text: fmt.Sprintf("group %q: a token has at most %d groups, and a group's name is one line of at most %d bytes", textfmt.Shorten(group, 80), maxTokenGroups, maxGroup)}
		}
	}
	return nil
}

// grants are the roles and groups, for the audit log.
func (n NewToken) grants() []string {
	all := n.Roles.Grants()
	for _, group := range n.Groups {
		all = append(all, "group "+textfmt.Shorten(group, maxGroup))
	}
	return all
}

// mayMake checks that the actor may make a token: an admin of some teams gives it no group
// but their own.
func mayMake(ctx context.Context, n NewToken) error {
	err := mayManage(ctx, n.Roles)
	actor, _ := Of(ctx)
	if slices.ContainsFunc(n.Groups, func(group string) bool { return !slices.Contains(actor.Groups, group) }) {
		err = cmp.Or(err, Check(ctx, Admin, AllTeams))
	}
	return err
}

// Create makes a token. It returns the secret, which is stored nowhere.
func (t *Tokens) Create(ctx context.Context, n NewToken) (secret string, made Token, err error) {
	name := n.Name
	event := Event{Action: "token.create", Subject: name, Detail: strings.Join(n.grants(), ", ")}
	if err := mayMake(ctx, n); err != nil {
		t.audit.deny(ctx, event, err)
		return "", made, err
	}
	if err := n.check(); err != nil {
		return "", made, err
	}
	actor, _ := Of(ctx)
	now := t.now().UTC()
	secret = TokenPrefix + newSecret()
	made = Token{ID: newID(), Name: name, Roles: n.Roles, Groups: n.Groups, By: actor.Person(), ByID: actor.PersonID, CreatedAt: now}
	if n.Lifetime > 0 {
		expires := now.Add(n.Lifetime)
		made.ExpiresAt = &expires
	}
	err = t.audit.do(ctx, event, func(context.Context) error {
		return t.known.change(func(all map[string]Token) error {
			maps.DeleteFunc(all, func(_ string, known Token) bool { return known.isRemovable(now) })
			for _, known := range all {
				if known.Name == name && known.State(now) == "active" {
					return &TokenError{text: fmt.Sprintf("token %s exists already, with the id %s; choose another name, or revoke that one", name, known.ID)}
				}
			}
			if len(all) >= maxTokens {
				return &TokenError{text: fmt.Sprintf("the store has %d tokens already, and no more are allowed; revoked and expired ones count for 90 days", len(all))}
			}
			all[hashOf(secret)] = made
			return nil
		})
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
	all, err := t.known.all()
	if err != nil {
		return nil, err
	}
	tokens := []Token{}
	for _, token := range all {
		if mayManage(ctx, token.Roles) == nil {
			tokens = append(tokens, token)
		}
	}
	slices.SortFunc(tokens, func(a, b Token) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), b.CreatedAt.Compare(a.CreatedAt))
	})
	return tokens, nil
}

// Revoke ends a token, by its id, at once. It returns the token.
func (t *Tokens) Revoke(ctx context.Context, id string) (revoked Token, err error) {
	all, _, err := t.known.load()
	if err != nil {
		return revoked, err
	}
	for _, token := range all {
		if token.ID == id {
			revoked = token
		}
	}
	event := Event{Action: "token.revoke", Subject: cmp.Or(revoked.Name, id), Detail: id}
	if err := mayManage(ctx, revoked.Roles); err != nil {
		t.audit.deny(ctx, event, err)
		return Token{}, err
	}
	if revoked.ID == "" {
		return revoked, &TokenError{Unknown: true, text: fmt.Sprintf("token %q not found; `maestro token list` has the ids", textfmt.Shorten(id, 80))}
	}
	if revoked.RevokedAt != nil {
		return revoked, nil
	}
	actor, _ := Of(ctx)
	now := t.now().UTC()
	return revoked, t.audit.do(ctx, event, func(context.Context) error {
		return t.known.change(func(all map[string]Token) error {
			for hash, token := range all {
				if token.ID == id {
					token.RevokedAt, token.RevokedBy = &now, actor.Name
					all[hash], revoked = token, token
				}
			}
			return nil
		})
	})
}

// maxSecret is longer than any token.
const maxSecret = 200

// find returns the active token with a secret. It is looked up by its hash: how long that takes
// says nothing of the secret.
func (t *Tokens) find(secret string) (token Token, ok bool, err error) {
	if !strings.HasPrefix(secret, TokenPrefix) || len(secret) > maxSecret {
		return token, false, nil
	}
	now, hash := t.now(), hashOf(secret)
	token, ok, err = t.known.find(hash)
	if err != nil || !ok || token.State(now) != "active" {
		return token, false, err
	}
	if today := now.UTC().Format(time.DateOnly); token.LastUsed < today {
		_ = t.known.change(func(all map[string]Token) error { // the next use tries again
			if token, ok := all[hash]; ok {
				token.LastUsed = max(token.LastUsed, today)
				all[hash] = token
			}
			return nil
		})
	}
	return token, true, nil
}
