package access

import (
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/storage"
)

const (
	browsersKey = "access/browsers.json"

	// browserIdle and browserLifetime are for how long somebody stays signed in without and
	// with use.
	browserIdle     = 24 * time.Hour
	browserLifetime = 7 * 24 * time.Hour
	// browserSeen is how often the last use is written.
	browserSeen = time.Hour
	// maxBrowsers are signed in at once; of more, those leave that were used longest ago.
	maxBrowsers = 5000
)

// browser is somebody who is signed in with a browser.
type browser struct {
	Name string `json:"name"`
	// Owner is who made the one-time link.
	Owner string `json:"owner,omitempty"`
	// PersonID is as in [Actor].
	PersonID string   `json:"person_id,omitempty"`
	Via      Via      `json:"via"`
	Groups   []string `json:"groups,omitempty"`
	// Roles are those of a one-time link; for others the groups count.
	Roles   Roles     `json:"roles,omitempty"`
	Created time.Time `json:"created"`
	Seen    time.Time `json:"seen"`
	Expires time.Time `json:"expires"`
}

func (b browser) isSignedIn(now time.Time) bool {
	return b.Name != "" && now.Before(b.Expires) && now.Sub(b.Seen) < browserIdle
}

// browsers are the sessions of browsers, each under the hash of its id: they outlive the
// server, and the document signs nobody in.
type browsers struct {
	known *register[browser]
	now   func() time.Time
}

func newBrowsers(docs storage.Storage, now func() time.Time) browsers {
	return browsers{newRegister[browser](docs, browsersKey, now), now}
}

// create signs somebody in for a time, ends the session with the old id, and returns the id of
// the new one.
func (b browsers) create(who browser, lifetime time.Duration, old string) (id string, err error) {
	now := b.now().UTC()
	who.Created, who.Seen, who.Expires = now, now, now.Add(lifetime)
	id = newSecret()
	return id, b.known.change(func(all map[string]browser) error {
		delete(all, hashOf(old))
		maps.DeleteFunc(all, func(_ string, b browser) bool { return !b.isSignedIn(now) })
		byUse := slices.SortedFunc(maps.Keys(all), func(x, y string) int { return all[x].Seen.Compare(all[y].Seen) })
		for len(all) >= maxBrowsers {
			delete(all, byUse[0])
			byUse = byUse[1:]
		}
		all[hashOf(id)] = who
		return nil
	})
}

// find returns who is signed in; ok is false for an id that is unknown or has expired.
func (b browsers) find(id string) (who browser, ok bool, err error) {
	now, hash := b.now(), hashOf(id)
	if who, _, err = b.known.find(hash); err != nil || !who.isSignedIn(now) {
		return who, false, err
	}
	if now.Sub(who.Seen) > browserSeen {
		_ = b.known.change(func(all map[string]browser) error { // the next use tries again
			if who, ok := all[hash]; ok {
				who.Seen = now.UTC()
				all[hash] = who
			}
			return nil
		})
	}
	return who, true, nil
}

// remove signs a browser out.
func (b browsers) remove(id string) error {
	return b.known.change(func(all map[string]browser) error {
		delete(all, hashOf(id))
		return nil
	})
}

// The names of the cookie of a session. The browser lets only this host set the first one, and
// only over https. Cookies do not know ports, so that the second one has the port in its name.
const (
	secureCookie = "__Host-maestro"
	plainCookie  = "maestro-"
)

func (v visit) cookieName() string {
	if v.secure {
		return secureCookie
	}
	_, port, _ := net.SplitHostPort(v.host)
	return plainCookie + port
}

// setCookie gives a browser the id of its session; an empty one takes it away.
func (v visit) setCookie(w http.ResponseWriter, id string, lifetime time.Duration) {
	age := int(lifetime / time.Second)
	if id == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // without https, on loopback, browsers would not keep a secure cookie
		Name: v.cookieName(), Value: id, Path: "/", MaxAge: age, Secure: v.secure, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

// cookie is the id of the session in a request; empty: there is none. Of two with the name one
// was set by somebody else, and neither counts.
func (v visit) cookie(r *http.Request) string {
	cookies := r.CookiesNamed(v.cookieName())
	if len(cookies) != 1 {
		return ""
	}
	return cookies[0].Value
}

type csrfKey struct{}

// CSRFToken is what forms of a page send in the field csrf, and scripts in the header
// X-CSRF-Token; empty where the request does not come from a browser that is signed in.
func CSRFToken(ctx context.Context) string {
	token, _ := ctx.Value(csrfKey{}).(string)
	return token
}

// csrfOf derives the token of a session from its id, which it does not give away.
func csrfOf(id string) string { return hashOf("csrf " + id) }
