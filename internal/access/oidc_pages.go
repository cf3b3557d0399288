package access

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// attemptLifetime is for how long a person may take to sign in at the provider.
const attemptLifetime = 10 * time.Minute

// attemptCookie is the purpose of the cookie of a sign-in under way.
const attemptCookie = "oidc-"

// setAttempt gives a browser the cookie of a sign-in under way, or takes it away. The provider
// leads the browser back from another site, so that the cookie is not strict.
func (v visit) setAttempt(w http.ResponseWriter, a *attempt) {
	c := http.Cookie{Name: v.cookieName(attemptCookie), Path: "/", MaxAge: -1, Secure: v.secure, //nolint:gosec // see setCookie
		HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if a != nil {
		data, _ := json.Marshal(a) // texts only
		c.Value, c.MaxAge = base64.RawURLEncoding.EncodeToString(data), int(attemptLifetime/time.Second)
	}
	http.SetCookie(w, &c)
}

// attempt is the sign-in under way of a browser; ok is false if there is none.
func (v visit) attempt(r *http.Request) (a attempt, ok bool) {
	data, err := base64.RawURLEncoding.DecodeString(v.cookie(r, attemptCookie))
	if err == nil {
		err = json.Unmarshal(data, &a)
	}
	return a, err == nil && a.State != "" && a.Nonce != "" && a.Verifier != ""
}

// beginOIDC leads a browser to the provider.
func (g *Guard) beginOIDC(w http.ResponseWriter, r *http.Request, v visit) {
	base := strings.TrimSuffix(g.URL(), "/")
	to := localPath(r.URL.Query().Get("return"))
	if !strings.EqualFold(v.origin(), base) { // the provider leads back to the server's first name
		http.Redirect(w, r, base+oidcPath+"?"+url.Values{"return": {to}}.Encode(), http.StatusSeeOther)
		return
	}
	if !g.mayBeSent(w, r, v) {
		return
	}
	a := attempt{State: newSecret(), Nonce: newSecret(), Verifier: oauth2.GenerateVerifier(), Return: to}
	address, err := g.oidc.begin(a, base+callbackPath)
	if err != nil {
		g.refuse(w, r, v, err)
		return
	}
	v.setAttempt(w, &a)
	http.Redirect(w, r, address, http.StatusSeeOther)
}

// endOIDC signs a browser in that comes back from the provider.
func (g *Guard) endOIDC(w http.ResponseWriter, r *http.Request, v visit) {
	a, ok := v.attempt(r)
	query := r.URL.Query()
	if !ok || subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(a.State)) != 1 {
		g.notSignedIn(w, r, v, errors.New("the sign-in has expired, or was begun in another browser; begin again"))
		return
	}
	v.setAttempt(w, nil)
	if given := query.Get("iss"); given != "" && given != g.oidc.options.Issuer {
		g.notSignedIn(w, r, v, errIdentity)
		return
	}
	code := query.Get("code")
	if code == "" {
		g.notSignedIn(w, r, v, errors.New("the provider says: "+query.Get("error")+" "+query.Get("error_description")))
		return
	}
	who, err := g.oidc.finish(r.Context(), a, code, strings.TrimSuffix(g.URL(), "/")+callbackPath)
	var noRole *noRoleError
	switch {
	case errors.As(err, &noRole):
		event := Event{Action: "login", Outcome: Denied, Error: err.Error()}
		_ = g.options.Audit.Record(With(r.Context(), g.actor(who, v)), event)
		g.answer(w, r, fault{status: http.StatusForbidden, title: "No role", text: err.Error()})
	case errors.Is(err, errIdentity):
		g.notSignedIn(w, r, v, err)
	case err != nil:
		g.refuse(w, r, v, err)
	default:
		g.signIn(w, r, v, who, "", oidcLifetime, localPath(a.Return))
	}
}

// notSignedIn answers a sign-in that failed.
func (g *Guard) notSignedIn(w http.ResponseWriter, r *http.Request, v visit, err error) {
	wait := g.failures.note(r.Context(), v, "login", err.Error())
	g.answer(w, r, limited(fault{status: http.StatusUnauthorized, title: "Not signed in", text: err.Error(), signIn: true}, wait))
}

// localPath is a path of this server to lead a browser to; / if the text is another address.
func localPath(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") ||
		strings.ContainsAny(text, "\\\r\n\t") || strings.HasPrefix(u.Path, "/login") {
		return "/"
	}
	return u.RequestURI()
}
