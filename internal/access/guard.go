package access

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/store/state"
)

// DefaultBody is the largest body of a request, in bytes, where Options says nothing else.
const DefaultBody = 1 << 20

// Options are the settings of a [Guard].
type Options struct {
	DB    *state.DB
	Audit *Audit
	Now   func() time.Time
	// User is the user whom one-time links sign in: the user of the server's process, as user@host.
	User string
	// Addresses are those that the server listens on, host:port. Hosts are other names by
	// which it may be called, with or without a port; the first is the one in links.
	Addresses []string
	Hosts     []string
	// Proxies are networks whose X-Forwarded headers are trusted.
	Proxies []netip.Prefix
	// ReadOnly: nothing can be changed.
	ReadOnly bool
	// Public are paths that need no one signed in; those that end in a slash, with all below
	// them. Their handlers see no actor.
	Public []string
	// API are paths of programs, which get no pages for people. As Public.
	API []string
	// Signed are paths for calls that Signature accepts, in the format of Public.
	Signed []string
	// Signature returns the actor that has signed a call, and the request for the handler. The
	// error is [ErrSignature] if the signature is not valid.
	Signature func(*http.Request) (Actor, *http.Request, error)
	// OIDC is the provider by which people sign in; nil: there is none.
	OIDC *OIDCOptions
	// Body says before the body of a request is read how large it may be, in bytes; zero:
	// DefaultBody. The request has its actor. Its error, a [*DeniedError] or a [*RefusedError],
	// refuses the request; done is called when it is answered. Nil: DefaultBody for all.
	Body func(*http.Request) (limit int64, done func(), err error)
	// Pace is how long 512 KiB of a body may take. Zero: 30 seconds.
	Pace time.Duration
}

// RefusedError means that a request is refused although its actor has the permission.
type RefusedError struct {
	Status      int
	Title, Text string
	// After is the time to wait before a retry; zero: unknown.
	After time.Duration
	// Err is the cause; nil: none.
	Err error
}

func (e *RefusedError) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// errTooLarge refuses a body that is longer than it may be.
var errTooLarge = &RefusedError{
	Status: http.StatusRequestEntityTooLarge, Title: "Too large",
	Text: "the body of the request is too large",
}

// Guard authenticates requests, and passes the actor to handlers; see [Of].
type Guard struct {
	options  Options
	doors    serverNames
	tokens   *Tokens
	people   *People
	oidc     *oidcProvider
	failures *failures
	// hashing are the passwords that are checked, by network.
	hashing *InFlight
	// unverified are the calls whose signatures are not checked yet, and forms the forms of sign-ins that are read, by network.
	unverified, forms *InFlight
}

// NewGuard returns a guard.
func NewGuard(o Options) *Guard {
	return &Guard{
		options: o, doors: newServerNames(o), tokens: NewTokens(o.DB, o.Audit), people: NewPeople(o.DB, o.Audit, o.Now),
		oidc: newOIDC(o.OIDC, o.Now), failures: newFailures(o.Audit, o.Now), hashing: NewInFlight(passwordsAtOnce, passwordsInAll),
		unverified: NewInFlight(signedAtOnce, signedInAll),
		forms:      NewInFlight(signedAtOnce, signedInAll),
	}
}

// URL is the address of the server, for links.
func (g *Guard) URL() string {
	address, port := "127.0.0.1", ""
	if len(g.options.Addresses) > 0 {
		address = g.options.Addresses[0]
		var ip string
		ip, port, _ = net.SplitHostPort(address)
		if addr, err := netip.ParseAddr(ip); ip == "" || err == nil && addr.IsUnspecified() {
			address = net.JoinHostPort("127.0.0.1", port)
		}
	}
	proxied := len(g.options.Proxies) > 0
	if len(g.options.Hosts) > 0 {
		address = g.options.Hosts[0]
		if _, _, err := net.SplitHostPort(address); err != nil && port != "" && !proxied {
			address = net.JoinHostPort(address, port)
		}
	}
	return visit{host: address, secure: proxied && len(g.options.Hosts) > 0}.origin() + "/"
}

// LoginURL returns a link that signs the local user in, once within 10 minutes.
func (g *Guard) LoginURL(ctx context.Context) (string, error) {
	return createLink(ctx, g.options.DB, g.options.Audit, g.URL(), state.Link{Owner: g.options.User})
}

// Wrap guards a handler.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		SetHeaders(w.Header())
		r = r.Clone(r.Context()) // its header is changed
		v, known := g.doors.visit(r)
		if !known {
			g.answer(w, r, fault{status: http.StatusMisdirectedRequest, title: "Unknown host", text: unknownHost(v.host)})
			return
		}
		large, body := r.ContentLength > DefaultBody, r.Body
		r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
		r.Body = http.MaxBytesReader(w, body, DefaultBody)
		if !large && g.serveSignIn(w, r, v) {
			return
		}
		public, signed := matches(g.options.Public, r.URL.Path), matches(g.options.Signed, r.URL.Path)
		switch {
		case large && (public || signed):
			g.refuse(w, r, v, errTooLarge)
			return
		case public:
			next.ServeHTTP(w, r)
			return
		}
		var c credential
		var err error
		if signed {
			c, r, err = g.identifySigned(w, r, v)
		} else {
			c, err = g.find(r, v)
		}
		if err != nil {
			g.refuse(w, r, v, err)
			return
		}
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		if !signed { // what has signed a call cannot end before it
			go g.watch(r.Clone(ctx), v, c.actor, cancel)
		}
		ctx = context.WithValue(With(ctx, c.actor), browserKey{}, c.who)
		r = r.WithContext(ctx)
		if !signed { // its body was read for its signature
			done, err := g.body(w, r, body)
			if err == nil {
				defer done()
				err = cmp.Or(checkBrowser(r, v, c.browser), readForm(r))
			}
			if err != nil {
				g.refuse(w, r, v, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// body bounds the body of a request before any of it is read. done is called when it is answered.
func (g *Guard) body(w http.ResponseWriter, r *http.Request, body io.ReadCloser) (done func(), err error) {
	limit, release := int64(DefaultBody), func() {}
	if g.options.Body != nil {
		if limit, release, err = g.options.Body(r); err != nil {
			return nil, err
		}
		limit = cmp.Or(limit, DefaultBody)
	}
	if r.ContentLength > limit {
		release()
		return nil, errTooLarge
	}
	paced := newPacedBody(w, body, cmp.Or(g.options.Pace, bodyPatience), paceBytes)
	paced.whole = r.ContentLength == 0
	stop := context.AfterFunc(r.Context(), paced.end)
	r.Body = http.MaxBytesReader(w, paced, limit)
	return func() {
		stop()
		// net/http removes the files of a form for its own request only, of which the guard has a copy.
		// Handlers parse the guard's request and make no copy before.
		if r.MultipartForm != nil {
			_ = r.MultipartForm.RemoveAll()
		}
		release()
	}, nil
}

// ErrSignedOut is the cause of the end of a request whose credential has become invalid.
var ErrSignedOut = errors.New("signed out, revoked or expired")

// watchEvery is how often the credential of a long request is checked again.
const watchEvery = 500 * time.Millisecond

// watch ends a request whose credential ends meanwhile, or gets other roles: streams of events take long.
func (g *Guard) watch(r *http.Request, v visit, who Actor, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
		now, err := g.find(r, v)
		same := reflect.DeepEqual(now.actor.Roles, who.Roles) && slices.Equal(now.actor.Groups, who.Groups)
		if errors.Is(err, errNoCredential) || errors.Is(err, errInvalid) || err == nil && !same {
			cancel(ErrSignedOut)
			return
		}
	}
}

// SetHeaders sets the headers that every answer has. Handlers of files that never change may
// set another Cache-Control.
func SetHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "+
		"connect-src 'self'; "+
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// matches reports whether a path is one of some; those that end in a slash stand for all below
// them. A path that is not the shortest of its kind is none.
func matches(paths []string, name string) bool {
	clean := path.Clean(name)
	if name != clean && name != clean+"/" {
		return false
	}
	for _, p := range paths {
		if name == p || strings.HasSuffix(p, "/") && strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}
