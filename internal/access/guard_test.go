package access_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

// site is a guarded server over a real socket.
type site struct {
	t       *testing.T
	dir     string
	clock   *statetest.Clock
	db      *state.DB
	audit   *access.Audit
	guard   *access.Guard
	address string
	url     string
}

// newSite starts a server whose handler tells who calls.
func newSite(t *testing.T, change ...func(*access.Options)) *site {
	t.Helper()
	return startSite(t, t.TempDir(), newClock(), "127.0.0.1:0", change...)
}

func startSite(t *testing.T, dir string, c *statetest.Clock, address string, change ...func(*access.Options)) *site {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	db := openState(t, dir, c)
	s := &site{t: t, dir: dir, clock: c, db: db, audit: access.NewAudit(db, c.Now), address: listener.Addr().String()}
	s.url = "http://" + s.address
	o := access.Options{
		DB: db, Audit: s.audit, Now: c.Now, User: "ann@desk", Addresses: []string{s.address},
		Public: []string{"/health", "/assets/"}, API: []string{"/api/"},
	}
	for _, f := range change {
		f(&o)
	}
	s.guard = access.NewGuard(o)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		actor, _ := access.Of(r.Context())
		_ = json.NewEncoder(w).Encode(seen{actor, r.Header, len(body)})
	})
	mux.HandleFunc("/api/events", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begun\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		_, _ = fmt.Fprintln(w, context.Cause(r.Context()))
	})
	var handling sync.WaitGroup // what is refused writes to the audit log
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handling.Add(1)
			defer handling.Done()
			s.guard.Wrap(mux).ServeHTTP(w, r)
		}),
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		handling.Wait()
	})
	return s
}

// seen is what the handler saw.
type seen struct {
	Actor  access.Actor
	Header http.Header
	Body   int
}

// reply is an answer with its body read.
type reply struct {
	*http.Response
	text string
}

func (r reply) seen(t *testing.T) (s seen) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(r.text), &s), "%d %s", r.StatusCode, r.text)
	return s
}

// user is a browser or a program.
type user struct {
	*site
	http *http.Client
}

func (s *site) user() *user {
	jar, err := cookiejar.New(nil)
	require.NoError(s.t, err)
	return &user{s, &http.Client{
		Jar:           jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// open sends a request with headers, given as "Name: value"; Host is one of them.
func (u *user) open(method, path, body string, headers ...string) *http.Response {
	u.t.Helper()
	target := path
	if !strings.HasPrefix(path, "http") {
		target = u.url + path
	}
	req, err := http.NewRequest(method, target, strings.NewReader(body))
	require.NoError(u.t, err)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Add(name, value)
	}
	resp, err := u.http.Do(req)
	require.NoError(u.t, err)
	return resp
}

// send sends a request, and reads its answer.
func (u *user) send(method, path, body string, headers ...string) reply {
	u.t.Helper()
	resp := u.open(method, path, body, headers...)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(u.t, err)
	return reply{resp, string(text)}
}

func (u *user) get(path string, headers ...string) reply {
	u.t.Helper()
	return u.send("GET", path, "", headers...)
}

// browser is a user who has signed in by a one-time link.
func (s *site) browser() *user {
	s.t.Helper()
	u := s.user()
	got := u.follow(s.link())
	require.Equal(s.t, 303, got.StatusCode, got.text)
	return u
}

// follow sends the form of a one-time link.
func (u *user) follow(link string, headers ...string) reply {
	u.t.Helper()
	at, code, _ := strings.Cut(link, "?")
	return u.send("POST", at+"/link", code, append(headers, "Content-Type: application/x-www-form-urlencoded")...)
}

func (s *site) link() string {
	s.t.Helper()
	link, err := s.guard.LoginURL(s.t.Context())
	require.NoError(s.t, err)
	return link
}

const html = "Accept: text/html,application/xhtml+xml"

func TestALinkSignsInOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	link := s.link()
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/login\?code=[A-Za-z0-9_-]{43}$`, link)
	u := s.user()
	for range 2 {
		shown := u.get(link, html)
		require.Equal(t, 200, shown.StatusCode, "the preview of a chat does not use it up")
		require.Contains(t, shown.text, ">Sign in as ann@desk</button>")
		require.Equal(t, "strict-origin", shown.Header.Get("Referrer-Policy"))
		require.Empty(t, shown.Cookies())
	}
	require.Equal(t, 403, u.follow(link, "Origin: http://evil.example").StatusCode, "another site signs nobody in")

	got := u.follow(link, "Origin: "+u.url)
	require.Equal(t, 303, got.StatusCode)
	require.Equal(t, "/", got.Header.Get("Location"), "the code leaves the address")
	require.Equal(t, "no-referrer", got.Header.Get("Referrer-Policy"))
	cookie := got.Cookies()[0]
	require.True(t, cookie.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	require.Equal(t, "/", cookie.Path)
	require.Empty(t, cookie.Domain)
	who := u.get("/").seen(t)
	made := eventsOf(t, s.audit, access.EventFilter{Action: "link.create"})
	require.Len(t, made, 1)
	require.Equal(t, access.Actor{
		Name: "one-time link " + made[0].Subject, Owner: "ann@desk", Via: access.ViaLink,
		From: "127.0.0.1", Roles: roles(t, "admin"),
	}, who.Actor)
	require.Equal(t, "one-time link "+made[0].Subject+", made by ann@desk", who.Actor.String())

	require.Equal(t, 303, u.get(link).StatusCode, "whoever is signed in may come back")
	require.Equal(t, 401, s.user().follow(link).StatusCode)
	again := s.user().get(link, html)
	require.Equal(t, 401, again.StatusCode)
	require.Contains(t, again.text, "was used already")
	require.Contains(t, again.text, "maestro serve --link")
	require.Empty(t, again.Cookies())

	late := s.link()
	s.clock.Pass(10 * time.Minute)
	require.Equal(t, 401, s.user().get(late).StatusCode)
	require.Equal(t, 401, s.user().get("/login?code=").StatusCode+s.user().get("/login?code=x").StatusCode-200)

	events := eventsOf(t, s.audit, access.EventFilter{Action: "login"})
	require.Equal(t, access.Done, events[len(events)-1].Outcome)
	require.Equal(t, who.Actor.String(), events[len(events)-1].Who())
	require.Equal(t, who.Actor.Name, events[len(events)-1].Actor)
	require.Len(t, eventsOf(t, s.audit, access.EventFilter{Actor: "ann@desk", Action: "login"}), 1,
		"events of a link are found by who made it")
	require.NotEqual(t, made[0].Subject, eventsOf(t, s.audit, access.EventFilter{Action: "link.create"})[0].Subject,
		"two links are told apart")
}

func TestALinkIsMadeForTheServerThatRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, err := access.NewLink(t.Context(), s.db, s.audit, "desk", "bob@desk", "", nil)
	require.ErrorContains(t, err, "maestro serve")
	require.NoError(t, access.Announce(t.Context(), s.db, "desk", s.guard.URL(), false))
	_, err = access.NewLink(t.Context(), s.db, s.audit, "other", "bob@other", "", nil)
	require.ErrorContains(t, err, "on the host of "+s.url)
	link, err := access.NewLink(t.Context(), s.db, s.audit, "desk", "bob@desk", "", nil)
	require.NoError(t, err)
	u := s.user()
	require.Equal(t, 303, u.follow(link).StatusCode)
	require.Equal(t, "bob@desk", u.get("/").seen(t).Actor.Person())
}

// A server that somebody starts beside the installation's takes no links.
func TestLinksLeadToThePublicServerElseToTheFirst(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	leadTo := func(want string) {
		t.Helper()
		require.Equal(t, want, access.ServedAt(t.Context(), s.db))
	}
	runs := func(address string, public bool) {
		t.Helper()
		require.NoError(t, access.Announce(t.Context(), s.db, "desk", address, public))
		s.clock.Pass(time.Second)
	}
	leadTo("")
	runs("http://127.0.0.1:1/", false)
	runs("http://127.0.0.1:2/", false)
	leadTo("http://127.0.0.1:1")
	runs("https://maestro.example/", true)
	runs("https://second.example/", true)
	runs("http://127.0.0.1:3/", false)
	leadTo("https://maestro.example")
	require.NoError(t, s.db.WithdrawServer(t.Context(), "https://second.example/"))
	s.clock.Pass(access.AnnouncePause)
	runs("http://127.0.0.1:2/", false)
	s.clock.Pass(3 * access.AnnouncePause)
	runs("http://127.0.0.1:1/", false) // it was away for a while
	leadTo("http://127.0.0.1:2")
	require.NoError(t, s.db.WithdrawServer(t.Context(), "http://127.0.0.1:2/"))
	leadTo("http://127.0.0.1:1")
	s.clock.Pass(time.Hour)
	leadTo("")
}

// TestTheStoreSignsNobodyIn looks for secrets in all that the server has written.
func TestTheStoreSignsNobodyIn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	link := s.link()
	u := s.browser()
	base, _ := url.Parse(s.url)
	token, _ := s.token(ann("admin"), "ci", 0, "viewer")
	secrets := []string{token, u.http.Jar.Cookies(base)[0].Value, link[strings.Index(link, "code=")+5:]}
	files := 0
	require.NoError(t, filepath.WalkDir(s.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		for _, secret := range secrets {
			assert.NotContains(t, string(data), secret, path)
		}
		info, _ := d.Info()
		assert.Zero(t, info.Mode()&0o077, path)
		return err
	}))
	require.Positive(t, files)
}

func TestASessionEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	idle, used := s.browser(), s.browser()
	for range 11 {
		s.clock.Pass(13 * time.Hour)
		require.Equal(t, 200, used.get("/").StatusCode)
	}
	require.Equal(t, 401, idle.get("/").StatusCode, "after a day without use")
	s.clock.Pass(20 * time.Hour)
	require.Equal(t, 200, used.get("/").StatusCode)
	s.clock.Pass(6 * time.Hour)
	require.Equal(t, 401, used.get("/").StatusCode, "after a week")
}

func TestLogout(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u := s.browser()
	base, _ := url.Parse(s.url)
	cookie := u.http.Jar.Cookies(base)[0]
	require.Equal(t, 405, u.get("/logout").StatusCode)
	require.Equal(t, 403, u.send("POST", "/logout", "", "Content-Type: application/x-www-form-urlencoded",
		"Origin: http://evil.example").StatusCode)
	require.Equal(t, 200, u.get("/").StatusCode)

	crossSite := s.user().send("POST", "/logout", "", "Origin: http://evil.example")
	require.Empty(t, crossSite.Cookies(), "a page elsewhere signs nobody out")
	got := u.send("POST", "/logout", "", "Content-Type: application/x-www-form-urlencoded", "Origin: "+s.url)
	require.Equal(t, 303, got.StatusCode)
	require.Equal(t, 401, u.get("/").StatusCode)
	require.Equal(t, 401, s.user().get("/", "Cookie: "+cookie.Name+"="+cookie.Value).StatusCode,
		"a copy of the cookie is worth nothing")
	require.Equal(t, "logout", eventsOf(t, s.audit, access.EventFilter{})[0].Action)
}

func TestEveryAnswerHasTheHeaders(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u := s.browser()
	for _, got := range []reply{
		u.get("/"), u.get("/login"), s.user().get("/", html), s.user().get("/api/x"), s.user().get("/health"),
		u.get("/", "Host: evil.example"), s.user().get("/login.css"),
	} {
		h := got.Header
		require.Contains(t, h.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'")
		require.NotContains(t, h.Get("Content-Security-Policy"), "unsafe")
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
		require.Equal(t, "no-referrer", h.Get("Referrer-Policy"))
		require.Equal(t, "same-origin", h.Get("Cross-Origin-Opener-Policy"))
		require.Equal(t, "same-origin", h.Get("Cross-Origin-Resource-Policy"))
		require.Empty(t, h.Get("Access-Control-Allow-Origin"))
		if got.Request.URL.Path != "/login.css" {
			require.Equal(t, "no-store", h.Get("Cache-Control"))
		}
	}
}

func TestWhoIsNotSignedInGetsAPageOrAProblem(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u := s.user()
	got := u.get("/sessions/x?y=1", html)
	require.Equal(t, 401, got.StatusCode)
	require.Contains(t, got.Header.Get("Content-Type"), "text/html")
	require.Contains(t, got.text, "maestro serve --link")
	require.NotContains(t, got.text, "<script")
	for _, accept := range []string{html, "Accept: application/json", "Accept: */*"} {
		got = u.get("/api/v1/sessions", accept)
		require.Equal(t, 401, got.StatusCode)
		require.Equal(t, "application/problem+json", got.Header.Get("Content-Type"))
		require.Equal(t, `Bearer realm="maestro"`, got.Header.Get("WWW-Authenticate"))
		require.JSONEq(t, `{"type":"about:blank","title":"Sign in","status":401,"detail":"not signed in"}`, got.text)
	}
	require.Equal(t, 401, u.get("/").StatusCode)
	require.Empty(t, u.get("/health").seen(t).Actor.Name)
	require.Equal(t, 200, u.get("/assets/a/b.js").StatusCode)
	for _, around := range []string{
		"/health/", "/healthy", "/assets/../api/x", "/assets//x", "/assets/%2e%2e/api/x", "/HEALTH",
		"//health",
	} {
		require.Equal(t, 401, u.get(around).StatusCode, around)
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *access.Options) { o.ReadOnly = true })
	who := s.browser().get("/").seen(t).Actor
	require.True(t, who.ReadOnly)
	require.Error(t, access.Check(access.With(context.Background(), who), access.Approve, access.NoTeam))
}

func TestLinksOfServersElsewhere(t *testing.T) {
	t.Parallel()
	network := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, c := range []struct {
		o    access.Options
		want string
	}{
		{access.Options{Addresses: []string{"127.0.0.1:7400"}}, "http://127.0.0.1:7400/"},
		{access.Options{Addresses: []string{"[::]:7400"}}, "http://127.0.0.1:7400/"},
		{
			access.Options{Addresses: []string{"0.0.0.0:7400"}, Hosts: []string{"maestro.example"}, Proxies: network},
			"https://maestro.example/",
		},
		{access.Options{Addresses: []string{"127.0.0.1:7400"}, Hosts: []string{"web.localhost"}}, "http://web.localhost:7400/"},
	} {
		c.o.Now = time.Now
		require.Equal(t, c.want, access.NewGuard(c.o).URL())
	}
}
