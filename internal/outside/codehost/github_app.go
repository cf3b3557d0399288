package codehost

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-github/v89/github"

	"github.com/maestro-hive/maestro/internal/core/failures"
)

// renewBefore is how long a token of an installation is valid at least. GitHub gives an hour.
const renewBefore = 12 * time.Minute

// installations are those of an app, and their tokens.
type installations struct {
	mu     sync.Mutex
	of     map[githubRepo]int64
	tokens map[int64]*github.InstallationToken
}

// asApp is the context's key of requests that the app makes for itself.
type asApp struct{}

// token returns the token for the context's repository.
func (g *GitHub) token(ctx context.Context) (string, error) {
	switch {
	case g.options.App == nil:
		return g.options.Token, nil
	case ctx.Value(asApp{}) != nil:
		now := g.now() // a minute ago, because clocks differ
		return jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.RegisteredClaims{
			Issuer: strconv.FormatInt(g.options.App.ID, 10), IssuedAt: jwt.NewNumericDate(now.Add(-time.Minute)),
			ExpiresAt: jwt.NewNumericDate(now.Add(8 * time.Minute)),
		}).SignedString(g.key)
	}
	r, _ := ctx.Value(repositoryKey{}).(githubRepo)
	g.apps.mu.Lock()
	defer g.apps.mu.Unlock()
	made, err := g.renewed(context.WithValue(ctx, asApp{}, true), r)
	if says(err, http.StatusNotFound, "") {
		return "", g.failf(failures.Auth, "give the app a token for "+r.String(), "it is not installed there; install it", err.Error())
	}
	return made.GetToken(), g.fail(err, "give the app a token for "+r.String())
}

func (g *GitHub) renewed(ctx context.Context, r githubRepo) (*github.InstallationToken, error) {
	id := cmp.Or(g.options.App.Installation, g.apps.of[r])
	if id == 0 {
		found, _, err := g.api.Apps.GetRepositoryInstallation(ctx, r.owner, r.name)
		if err != nil {
			return nil, err
		}
		id = found.GetID()
		g.apps.of[r] = id
	}
	if t := g.apps.tokens[id]; t != nil && t.GetExpiresAt().Sub(g.now()) >= renewBefore {
		return t, nil
	}
	made, _, err := g.api.Apps.CreateInstallationToken(ctx, id, &github.InstallationTokenOptions{})
	if err != nil {
		delete(g.apps.of, r)
		return nil, err
	}
	g.apps.tokens[id] = made
	return made, nil
}

// forget drops a token that GitHub has refused: the app may have been installed again.
func (g *GitHub) forget(ctx context.Context) {
	r, _ := ctx.Value(repositoryKey{}).(githubRepo)
	g.apps.mu.Lock()
	defer g.apps.mu.Unlock()
	delete(g.apps.tokens, cmp.Or(g.options.App.Installation, g.apps.of[r]))
	delete(g.apps.of, r)
}

// self returns the name of the account.
func (g *GitHub) self(ctx context.Context) (login string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.login != "" {
		return g.login, nil
	}
	if g.options.App == nil {
		user, _, err := g.api.Users.Get(ctx, "")
		g.login = user.GetLogin()
		return g.login, err
	}
	app, _, err := g.api.Apps.Get(context.WithValue(ctx, asApp{}, true), "")
	if err == nil {
		g.login = app.GetSlug() + "[bot]"
	}
	return g.login, err
}
