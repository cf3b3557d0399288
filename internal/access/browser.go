package access

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/store/state"
)

const (
	// browserIdle and browserLifetime are for how long somebody stays signed in without and
	// with use.
	browserIdle     = 24 * time.Hour
	browserLifetime = 7 * 24 * time.Hour
	// browserSeen is how often the last use is written.
	browserSeen = time.Hour
	// maxBrowsers are signed in at once; of more, those leave that were used longest ago.
	maxBrowsers = 5000
)

// browsers are the sessions of browsers, each under the hash of its id: they outlive the
// server, and the database signs nobody in.
type browsers struct{ db *state.DB }

// create signs somebody in for a time, by the proof of a person with an account. It ends the session with the old id, and
// returns the id of the new one.
func (b browsers) create(ctx context.Context, who state.Browser, proof string, lifetime time.Duration, old string) (id string,
	err error,
) {
	id = newSecret()
	who.Hash = hashOf(id)
	return id, b.db.AddBrowser(ctx, who, proof, hashOf(old), lifetime, browserIdle, maxBrowsers)
}

// browserKey is the key of the signed-in browser in the context of its request.
type browserKey struct{}

// find returns who is signed in, or errNoCredential for an id that is unknown or has expired.
func (b browsers) find(ctx context.Context, id string) (state.Browser, error) {
	who, err := b.db.UseBrowser(ctx, hashOf(id), browserIdle, browserSeen)
	if errors.Is(err, state.ErrNotFound) {
		err = errNoCredential
	}
	return who, err
}

// remove signs a browser out.
func (b browsers) remove(ctx context.Context, id string) error {
	return b.db.RemoveBrowser(ctx, hashOf(id))
}

// cookieName is the name of the cookie for a purpose; empty: a session. The browser lets only this host
// set one that begins with __Host-, and only over https. Cookies do not know ports, so that the others
// have the port in their names.
func (v visit) cookieName(purpose string) string {
	if v.secure {
		return strings.TrimSuffix("__Host-maestro-"+purpose, "-")
	}
	_, port, _ := net.SplitHostPort(v.host)
	return "maestro-" + purpose + port
}

// cookie is the value of the cookie for a purpose; empty: there is none. Of two with the name one was
// set by somebody else, and neither counts.
func (v visit) cookie(r *http.Request, purpose string) string {
	cookies := r.CookiesNamed(v.cookieName(purpose))
	if len(cookies) != 1 {
		return ""
	}
	return cookies[0].Value
}

// setCookie gives a browser the id of its session; an empty one takes it away.
func (v visit) setCookie(w http.ResponseWriter, id string, lifetime time.Duration) {
	age := int(lifetime / time.Second)
	if id == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // without https, on loopback, browsers would not keep a secure cookie
		Name: v.cookieName(""), Value: id, Path: "/", MaxAge: age, Secure: v.secure, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}
