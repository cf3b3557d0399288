package access

import (
	"net"
	"net/http"
	"strings"
	"time"
)

// browserKey is the key of the signed-in browser in the context of its request.
type browserKey struct{}

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
