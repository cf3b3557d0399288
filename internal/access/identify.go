package access

import (
	"context"
	"errors"
	"math"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/platform/httpserver"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// credential is the credential of a request.
type credential struct {
	actor Actor
	// browser reports whether it is the cookie of a signed-in browser, and who is the browser then.
	browser bool
	who     state.Browser
}

// The errors of authentication: no credential, an invalid one, too many requests, or a cross-site
// request of a browser.
var (
	errNoCredential = errors.New("sign in, or send a token")
	errInvalid      = errors.New("the token is unknown, revoked or expired")
	errTooMany      = errors.New("too many calls at once come from this address")
	errForged       = errors.New("the request does not come from a page of this server; load the page again and repeat it")
)

// identify returns who sends a request, which no page of another server has led a browser to.
func (g *Guard) identify(r *http.Request, v visit) (credential, error) {
	c, err := g.find(r, v)
	if err == nil {
		err = checkBrowser(r, v, c.browser)
	}
	return c, err
}

// find returns who sends a request, and reads nothing of its body. Where a request has an
// Authorization header, its cookies do not count.
func (g *Guard) find(r *http.Request, v visit) (credential, error) {
	if given, ok := r.Header["Authorization"]; ok {
		return g.identifyToken(r.Context(), given, v)
	}
	id := v.cookie(r, "")
	if id == "" {
		return credential{}, errNoCredential
	}
	who, err := g.options.DB.UseBrowser(r.Context(), hashOf(id), browserIdle, browserSeen)
	if errors.Is(err, state.ErrNotFound) { // it is unknown, or has expired
		err = errNoCredential
	}
	return credential{actor: g.actor(who, v), browser: true, who: who}, err
}

// identifyToken returns who sends a request with Authorization headers.
func (g *Guard) identifyToken(ctx context.Context, given []string, v visit) (credential, error) {
	scheme, secret, _ := strings.Cut(given[0], " ")
	if len(given) != 1 || !strings.EqualFold(scheme, "bearer") {
		return credential{}, errInvalid
	}
	token, err := g.tokens.find(ctx, strings.TrimSpace(secret))
	actor := Actor{
		Name: token.Name, Owner: token.By, PersonID: token.ByID, Via: ViaToken, From: v.client,
		Roles: token.Roles, Groups: token.Groups, ReadOnly: g.options.ReadOnly,
	}
	if token.Agent {
		actor.Via = ViaAgent
	}
	return credential{actor: actor}, err
}

// The bounds of calls whose senders are not known yet, because their bodies have to be read first: how
// long a body takes, and how many one network and all of them send at once.
const (
	signedPatience = 30 * time.Second
	signedAtOnce   = 32
	signedInAll    = 256
)

// errBusy refuses a call because of those of others.
var errBusy = &RefusedError{
	Status: http.StatusServiceUnavailable, Title: "Too many calls",
	Text: "too many calls come at once; try again in a moment", After: time.Second,
}

// readUnverified reads the body of a call whose sender is not known, unless too many are read at once.
func (g *Guard) readUnverified(of *InFlight, v visit, read func() error) error {
	done, own := of.Begin(httpserver.Network(v.client))
	switch {
	case own:
		return errTooMany
	case done == nil:
		return errBusy
	}
	defer done()
	return read()
}

// identifySigned returns who has signed a call, and the request that goes on.
func (g *Guard) identifySigned(w http.ResponseWriter, r *http.Request, v visit) (c credential, verified *http.Request,
	err error,
) {
	verified = r
	err = g.readUnverified(g.unverified, v, func() (err error) {
		r.Body = newPacedBody(w, r.Body, signedPatience, math.MaxInt)
		c.actor, verified, err = g.options.Signature(r)
		return err
	})
	if err != nil {
		return credential{}, r, err
	}
	c.actor.From, c.actor.ReadOnly = v.client, g.options.ReadOnly
	return c, verified, nil
}

func (g *Guard) actor(who state.Browser, v visit) Actor {
	a := Actor{
		Name: who.Name, Owner: who.Owner, PersonID: who.PersonID, Via: who.Via, From: v.client,
		Roles: who.Roles, Groups: who.Groups, ReadOnly: g.options.ReadOnly,
	}
	if who.Via == ViaOIDC {
		a.Roles = g.oidc.roles(who.Groups, who.Mail)
	}
	return a
}

// checkBrowser returns errForged if a page of another server led a signed-in browser to a request: only pages of this
// server may embed its answers or change something.
func checkBrowser(r *http.Request, v visit, browser bool) error {
	if !browser {
		return nil
	}
	site := r.Header.Get("Sec-Fetch-Site")
	navigates := r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	seen := *r
	seen.Host = v.host // behind a proxy, Host may be another name
	switch {
	case http.NewCrossOriginProtection().Check(&seen) != nil:
		return errForged
	case isSafe(r.Method) && site != "" && site != "same-origin" && site != "none" && !navigates:
		return errForged
	}
	return nil
}

// isSafe reports whether a method changes nothing.
func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// maxFormMemory is how many bytes of a form with files are kept in memory.
const maxFormMemory = 1 << 20

// readForm reads the body of a form. Its error says why the sender was refused meanwhile, or that the body is too large;
// a form that cannot be read otherwise is the handler's to refuse.
func readForm(r *http.Request) (err error) {
	if isSafe(r.Method) {
		return nil
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch kind {
	case "application/x-www-form-urlencoded":
		err = r.ParseForm()
	case "multipart/form-data":
		err = r.ParseMultipartForm(maxFormMemory) //nolint:gosec // Wrap bounds the body
	}
	var refused *RefusedError
	var tooLarge *http.MaxBytesError
	if errors.As(err, &refused) || errors.As(err, &tooLarge) {
		return err
	}
	return nil
}
