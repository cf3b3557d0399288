package access

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/store/state"
)

//go:embed login.html login.css passkey.js
var files embed.FS

var page = template.Must(template.ParseFS(files, "login.html"))

// fault is the response to a refused request.
type fault struct {
	status      int
	title, text string
	// after is what to wait before another try.
	after time.Duration
	// signIn: the page says how to sign in.
	signIn bool
	// reload: the page loads itself again, from here.
	reload bool
	// join is the form of an invitation; nil: none.
	join *joinForm
	// device is a link for another device.
	device string
	// link is the form of a one-time link; nil: none.
	link *linkForm
	// back is the page to go on from; empty: the first.
	back string
}

// problem is a fault for programs (RFC 9457).
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// serveSignIn serves the guard's own pages; handled is false for any other.
func (g *Guard) serveSignIn(w http.ResponseWriter, r *http.Request, v visit) (handled bool) {
	switch path := r.URL.Path; {
	case path == "/login" && r.Method == http.MethodPost:
		g.postForm(w, r, v, g.loginByPassword)
	case path == "/login":
		g.login(w, r, v)
	case path == linkPath && r.Method == http.MethodPost:
		g.postForm(w, r, v, g.loginByLink)
	case path == joinPath && r.Method == http.MethodPost:
		g.postForm(w, r, v, g.join)
	case path == joinPath:
		g.showForm(w, r, v, g.joinFormOf, errNoInvitation)
	case r.Method == http.MethodPost && g.accountForm(path) != nil:
		g.postForm(w, r, v, g.ofAccount(g.accountForm(path)))
	case path == "/login.css", path == "/login/passkey.js":
		w.Header().Set("Cache-Control", "max-age=3600")
		http.ServeFileFS(w, r, files, path[strings.LastIndex(path, "/")+1:]) //nolint:gosec // only what is embedded
	case path == passkeyPath+"/begin" && r.Method == http.MethodPost:
		g.postForm(w, r, v, g.beginPasskey)
	case path == passkeyPath+"/finish" && r.Method == http.MethodPost:
		g.postForm(w, r, v, g.finishPasskey)
	case path == "/logout":
		g.logout(w, r, v)
	case g.oidc != nil && path == oidcPath && r.Method == http.MethodGet:
		g.beginOIDC(w, r, v)
	case g.oidc != nil && path == callbackPath && r.Method == http.MethodGet:
		g.endOIDC(w, r, v)
	default:
		return false
	}
	return true
}

// login shows how to sign in, or what a one-time link signs in to.
func (g *Guard) login(w http.ResponseWriter, r *http.Request, v visit) {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD, POST")
		g.answer(w, r, fault{status: http.StatusMethodNotAllowed, title: "Method not allowed", text: "/login is for GET and POST"})
	case r.URL.Query().Get("code") != "":
		g.showForm(w, r, v, g.linkFormOf, errNoLink)
	default:
		if _, err := g.identify(r, v); err == nil {
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return
		}
		g.answer(w, r, fault{status: http.StatusOK, title: "Sign in", signIn: true})
	}
}

// showForm shows the form of a link that works once. Only the form uses the link up: programs look at links before people do.
func (g *Guard) showForm(w http.ResponseWriter, r *http.Request, v visit, formOf func(context.Context, string) (fault, error),
	unknown error,
) {
	if !g.mayBeSent(w, r, v) {
		return
	}
	form, err := formOf(r.Context(), r.URL.Query().Get("code"))
	_, out := g.identify(r, v)
	switch {
	case err == nil:
		g.answer(w, r, form)
	case errors.Is(err, state.ErrNotFound) && out == nil: // the person comes again
		http.Redirect(w, r, "/", http.StatusSeeOther)
	case errors.Is(err, state.ErrNotFound) && isCrossSiteNavigation(r):
		g.refuse(w, r, v, errNoCredential)
	default:
		g.refuseLink(w, r, v, err, unknown)
	}
}

// refuseLink answers a request whose link cannot be used; it does nothing without an error. unknown is what a person is told of
// a link that is not known.
func (g *Guard) refuseLink(w http.ResponseWriter, r *http.Request, v visit, err, unknown error) {
	switch {
	case errors.Is(err, state.ErrNotFound):
		wait := g.failures.note(r.Context(), v, "login", unknown.Error())
		g.answer(w, r, limited(fault{status: http.StatusUnauthorized, title: "Sign in", text: unknown.Error(), signIn: true}, wait))
	case err != nil:
		g.refuse(w, r, v, err)
	}
}

// mayBeSent reports whether a credential may be sent to a browser, and otherwise answers the request.
func (g *Guard) mayBeSent(w http.ResponseWriter, r *http.Request, v visit) bool {
	if v.maySend() {
		return true
	}
	g.answer(w, r, fault{
		status: http.StatusForbidden, title: "Not encrypted",
		text: "browsers can sign in by https, or on the server's own host only",
	})
	return false
}

// signIn begins a session of a browser, in place of the one that it had, and leads it to a
// path. The audit log has by what.
func (g *Guard) signIn(w http.ResponseWriter, r *http.Request, v visit, who state.Browser, by string, lifetime time.Duration,
	to string,
) {
	if !g.mayBeSent(w, r, v) {
		return
	}
	if err := g.begin(w, r, v, who, "", by, lifetime); err != nil {
		g.refuse(w, r, v, err)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// begin begins a session of a browser, in place of the one that it had. proof is what a person with an account has signed in by,
// and by is its name for the audit log.
func (g *Guard) begin(w http.ResponseWriter, r *http.Request, v visit, who state.Browser, proof, by string,
	lifetime time.Duration,
) error {
	if err := g.options.Audit.Record(With(r.Context(), g.actor(who, v)),
		Event{Action: "login", Outcome: Done, Detail: by}); err != nil {
		return err
	}
	id := newSecret() // the database has its hash only, and signs nobody in
	who.Hash = hashOf(id)
	err := g.options.DB.AddBrowser(r.Context(), who, proof, hashOf(v.cookie(r, "")), lifetime, browserIdle, maxBrowsers)
	if err == nil {
		v.setCookie(w, id, lifetime)
	}
	return err
}

// logout ends the browser's session.
func (g *Guard) logout(w http.ResponseWriter, r *http.Request, v visit) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		g.answer(w, r, fault{status: http.StatusMethodNotAllowed, title: "Method not allowed", text: "/logout is for POST"})
		return
	}
	c, err := g.identify(r, v)
	if err == nil && c.browser {
		if err = g.options.DB.RemoveBrowser(r.Context(), hashOf(v.cookie(r, ""))); err == nil {
			_ = g.options.Audit.Record(With(r.Context(), c.actor), Event{Action: "logout", Outcome: Done})
		}
	}
	if err != nil && !errors.Is(err, errNoCredential) {
		g.refuse(w, r, v, err)
		return
	}
	if v.cookie(r, "") != "" { // a page of another server takes no cookie away
		v.setCookie(w, "", 0)
	}
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// refuse answers a request that was not let in.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, v visit, err error) {
	var tooLarge *http.MaxBytesError
	var denied *DeniedError
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		g.answer(w, r, fault{status: refused.Status, title: refused.Title, text: refused.Text, after: refused.After})
	case errors.As(err, &denied):
		g.answer(w, r, fault{status: http.StatusForbidden, title: "You may not do this", text: err.Error()})
	case errors.Is(err, errForged):
		g.answer(w, r, fault{status: http.StatusForbidden, title: "Refused", text: err.Error()})
	case errors.Is(err, errNoCredential) && isCrossSiteNavigation(r):
		g.answer(w, r, fault{status: http.StatusOK, title: "Maestro", reload: true})
	case errors.Is(err, errNoCredential):
		w.Header().Set("WWW-Authenticate", `Bearer realm="maestro"`)
		g.answer(w, r, fault{status: http.StatusUnauthorized, title: "Sign in", text: ErrNotSignedIn.Error(), signIn: true})
	case errors.Is(err, errInvalid):
		wait := g.failures.note(r.Context(), v, "token.use", err.Error())
		w.Header().Set("WWW-Authenticate", `Bearer realm="maestro", error="invalid_token"`)
		g.answer(w, r, limited(fault{status: http.StatusUnauthorized, title: "Invalid token", text: err.Error()}, wait))
	case errors.Is(err, ErrSignature):
		w.Header().Set("WWW-Authenticate", `Signature realm="maestro"`)
		wait := g.failures.note(r.Context(), v, "hook.call", safetext.Clip(r.URL.Path, 80)+": "+err.Error())
		g.answer(w, r, limited(fault{status: http.StatusUnauthorized, title: "Not signed", text: err.Error()}, wait))
	case errors.Is(err, errTooMany):
		g.answer(w, r, fault{status: http.StatusTooManyRequests, title: "Too many calls", text: err.Error(), after: time.Second})
	case errors.As(err, &tooLarge):
		g.refuse(w, r, v, errTooLarge)
	case errors.Is(err, errProvider):
		g.answer(w, r, fault{
			status: http.StatusServiceUnavailable, title: "Sign in", text: err.Error(), after: time.Second,
			signIn: true,
		})
	default: // it may name files of this host
		if ok, _ := g.failures.logged.take(""); ok && r.Context().Err() == nil {
			slog.ErrorContext(r.Context(), "a request was refused, because the store cannot be used", "error", err)
		}
		g.answer(w, r, fault{
			status: http.StatusServiceUnavailable, title: "The store cannot be used",
			text: "the store cannot be read or written; the server's log says why", after: time.Second,
		})
	}
}

// isCrossSiteNavigation reports whether a browser follows a link on a page of another server. The
// browser then keeps its cookie back, and sends it when the page loads itself again.
func isCrossSiteNavigation(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return r.Method == http.MethodGet && (site == "cross-site" || site == "same-site") &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// limited is a fault that becomes one of too many requests if there is something to wait for.
func limited(f fault, wait time.Duration) fault {
	if wait > 0 {
		f.status, f.title, f.after = http.StatusTooManyRequests, "Too many failures", wait
	}
	return f
}

// answer writes a fault: a page for people, problem+json for programs.
func (g *Guard) answer(w http.ResponseWriter, r *http.Request, f fault) {
	h := w.Header()
	if f.after > 0 {
		h.Set("Retry-After", strconv.Itoa(int((f.after+time.Second-1)/time.Second)))
	}
	if matches(g.options.API, r.URL.Path) || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		h.Set("Content-Type", "application/problem+json")
		w.WriteHeader(f.status)
		_ = json.NewEncoder(w).Encode(problem{"about:blank", f.title, f.status, safetext.Clip(f.text, maxWord)})
		return
	}
	here := (&url.URL{Path: r.URL.Path, RawQuery: r.URL.RawQuery}).String()
	show := map[string]any{
		"Title": f.title, "Text": safetext.Clip(f.text, maxWord), "SignIn": f.signIn, "Reload": f.reload, "Here": here,
		"OIDC":   g.oidc != nil,
		"Return": localPath(cmp.Or(r.PostForm.Get("return"), here)), "Join": f.join, "Device": f.device, "Link": f.link,
		"Back": cmp.Or(f.back, "/"),
		"Name": safetext.Clip(r.PostForm.Get("name"), 63), // of the form
	}
	accounts := false
	if v, _ := r.Context().Value(visitKey{}).(visit); f.signIn && v.maySend() {
		accounts, _ = g.options.DB.HasPeople(r.Context())
		show["Accounts"] = accounts
	}
	if accounts || f.join != nil || f.link != nil {
		h.Set("Referrer-Policy", "strict-origin") // without a referrer, forms would have no origin either; a code is none of it
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(f.status)
	_ = page.Execute(w, show)
}

func unknownHost(host string) string {
	return fmt.Sprintf("this server is not called %s; start it with --host and that name if it should be", safetext.Clip(host, 80))
}

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
