package access_test

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
)

func TestAForgedHostIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, port, _ := strings.Cut(s.address, ":")
	u := s.browser()
	for _, host := range []string{
		"evil.example", "evil.example:" + port, "127.0.0.1.evil.example:" + port, "127.0.0.1", "127.0.0.1:1", "localhost",
		"localhost.:" + port,
		"127.0.0.2:" + port, "[::1]:" + port, "0.0.0.0:" + port, "127.1:" + port, "2130706433:" + port, "localhost:" + port + "0",
	} {
		for _, path := range []string{"/", "/health", "/login", s.link()} {
			got := u.get(path, "Host: "+host, "X-Forwarded-Host: "+s.address, "Forwarded: host="+s.address)
			require.Equal(t, 421, got.StatusCode, "%s for %s", host, path)
			require.Empty(t, got.Cookies())
		}
	}
	require.Equal(t, 200, u.get("/", "Host: LOCALHOST:"+port, "Cookie: "+cookieOf(t, u)).StatusCode)
	require.Equal(t, 200, s.user().get("/health", "Host: localhost:"+port).StatusCode)
}

func cookieOf(t *testing.T, u *user) string {
	t.Helper()
	base, err := url.Parse(u.url)
	require.NoError(t, err)
	cookies := u.http.Jar.Cookies(base)
	require.Len(t, cookies, 1)
	return cookies[0].Name + "=" + cookies[0].Value
}

func TestNamesAndAddressesOfAServerOnTheNetwork(t *testing.T) {
	t.Parallel()
	s := startSite(t, t.TempDir(), newClock(), "0.0.0.0:0",
		func(o *access.Options) { o.Hosts = []string{"Maestro.example", "other.example:8443"} })
	_, port, err := net.SplitHostPort(s.address)
	require.NoError(t, err)
	s.url = "http://127.0.0.1:" + port
	for host, status := range map[string]int{
		"maestro.example": 200, "maestro.example:443": 200, "maestro.example:" + port: 200, "maestro.example:1": 421,
		"other.example:8443": 200, "other.example": 421, "127.0.0.1:" + port: 200, "127.0.0.1": 421, "10.1.2.3:" + port: 421,
		"localhost:" + port: 421, "sub.maestro.example": 421, "maestro.example.": 421,
	} {
		require.Equal(t, status, s.user().get("/health", "Host: "+host).StatusCode, host)
	}
	link := strings.Replace(s.link(), "Maestro.example:"+port, "127.0.0.1:"+port, 1)
	got := s.user().get(link, "Host: maestro.example:"+port)
	require.Equal(t, 403, got.StatusCode, "without https no browser keeps a secure cookie")
}

// TestOtherPagesChangeNothing sends what browsers send for pages of other servers, with the
// victim's cookie.
func TestOtherPagesChangeNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u := s.browser()
	here := "Origin: " + s.url
	for _, r := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"a script of this server", []string{here, "Sec-Fetch-Site: same-origin"}, 200},
		{"an old browser's form", []string{here, "Content-Type: application/x-www-form-urlencoded"}, 200},
		{"a browser that hides the origin", []string{"Sec-Fetch-Site: same-origin"}, 200},
		{"typed by the user", []string{"Sec-Fetch-Site: none"}, 200},
		{"origin null", []string{"Origin: null"}, 403},
		{"another origin", []string{"Origin: http://evil.example"}, 403},
		{"another port", []string{"Origin: http://127.0.0.1:1"}, 403},
		{"an origin that begins like ours", []string{here + ".evil.example"}, 403},
		{"another port of this host", []string{here, "Sec-Fetch-Site: same-site"}, 403},
		{"another site that forges its origin", []string{here, "Sec-Fetch-Site: cross-site"}, 403},
	} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "MERGE"} {
			require.Equal(t, r.status, u.send(method, "/api/x", "", r.headers...).StatusCode, "%s: %s", method, r.name)
		}
	}
}

// TestOtherPagesEmbedNothing asks with the victim's cookie as frames, images and scripts of
// other servers do.
func TestOtherPagesEmbedNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u := s.browser()
	for _, site := range []string{"same-site", "cross-site", "nonsense"} {
		for _, dest := range []string{"iframe", "image", "script", "object", "empty", ""} {
			got := u.get("/api/x", "Sec-Fetch-Site: "+site, "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: "+dest)
			require.Equal(t, 403, got.StatusCode, "%s %s", site, dest)
		}
		require.Equal(t, 200, u.get("/x", "Sec-Fetch-Site: "+site, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document").StatusCode)
	}
}

// TestALinkOfAnotherPageLoadsAgain follows a link without the cookie, which the browser keeps
// back, and with it when the page has loaded itself again.
func TestALinkOfAnotherPageLoadsAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	navigation := []string{html, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}
	got := s.user().get(`/sessions/x?q="><script>`, append(navigation, "Sec-Fetch-Site: cross-site")...)
	require.Contains(t, got.text, `http-equiv="refresh"`)
	require.NotContains(t, got.text, "<script>")
	got = s.user().get("/sessions/x", append(navigation, "Sec-Fetch-Site: same-origin")...)
	require.Equal(t, 401, got.StatusCode)
	require.NotContains(t, got.text, "refresh")
}

func TestNobodyElseChoosesTheSession(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, port, _ := strings.Cut(s.address, ":")
	// Fixation: the id that somebody had before signing in signs nobody in afterwards.
	u := s.user()
	got := u.follow(s.link(), "Cookie: maestro-"+port+"=chosen")
	require.Equal(t, 303, got.StatusCode)
	require.NotEqual(t, "chosen", got.Cookies()[0].Value)
	require.Equal(t, 401, s.user().get("/", "Cookie: maestro-"+port+"=chosen").StatusCode)
	// Signing in again ends the session before.
	before := cookieOf(t, u)
	require.Equal(t, 303, u.follow(s.link()).StatusCode)
	require.NotEqual(t, before, cookieOf(t, u))
	require.Equal(t, 401, s.user().get("/", "Cookie: "+before).StatusCode)
	// Tossing: another server of this host sets a cookie of the same name.
	mallory := cookieOf(t, s.browser())
	for _, cookies := range []string{mallory + "; " + cookieOf(t, u), cookieOf(t, u) + "; " + mallory} {
		require.Equal(t, 401, s.user().get("/", "Cookie: "+cookies).StatusCode)
	}
	// The cookie of another port's server.
	require.Equal(t, 401, s.user().get("/", "Cookie: "+strings.Replace(mallory, port, "1", 1)).StatusCode)
	for _, bad := range []string{"", "..", "../links", strings.Repeat("x", 5000), "%00"} {
		require.Equal(t, 401, s.user().get("/", "Cookie: maestro-"+port+"="+bad).StatusCode)
	}
}

func TestHeadersAreNoActor(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	forged := []string{
		"X-Forwarded-User: admin", "X-Forwarded-For: 10.9.9.9", "X-Forwarded-Proto: https", "X-Real-Ip: 10.9.9.9",
		"X-Remote-User: admin",
		"Forwarded: for=10.9.9.9", "X-Maestro-Actor: admin", "X-Forwarded-Email: a@b",
	}
	require.Equal(t, 401, s.user().get("/", forged...).StatusCode)
	who := s.browser().get("/", forged...).seen(t)
	require.Equal(t, "ann@desk", who.Actor.Person())
	require.Equal(t, "127.0.0.1", who.Actor.From)
	for _, name := range []string{"Forwarded", "X-Real-Ip", "X-Forwarded-For", "X-Forwarded-User", "X-Forwarded-Email"} {
		require.NotContains(t, who.Header, name, "handlers do not even see it")
	}
	// Where a request has an Authorization header, the cookie does not count.
	for _, authorization := range []string{"Bearer x", "Basic YTpi", "", "Bearer"} {
		require.Equal(t, 401, s.browser().get("/", "Authorization: "+authorization).StatusCode, authorization)
	}
}

func TestAProxyIsBelievedOnlyWhereItIsNamed(t *testing.T) {
	t.Parallel()
	behind := func(prefix string) func(*access.Options) {
		return func(o *access.Options) {
			o.Proxies, o.Hosts = []netip.Prefix{netip.MustParsePrefix(prefix)}, []string{"maestro.example"}
		}
	}
	forwarded := []string{
		"X-Forwarded-Host: maestro.example", "X-Forwarded-Proto: https", "X-Forwarded-For: 6.6.6.6, 192.0.2.9",
		"X-Forwarded-For: 127.0.0.5",
	}
	s := newSite(t, behind("127.0.0.0/8"))
	code := s.link()[len("https://maestro.example"):]
	got := s.user().follow(code, forwarded...)
	require.Equal(t, 303, got.StatusCode)
	cookie := got.Cookies()[0]
	require.Equal(t, "__Host-maestro", cookie.Name)
	require.True(t, cookie.Secure)
	who := s.user().get("/", append(forwarded, "Cookie: __Host-maestro="+cookie.Value)...)
	require.Equal(t, "192.0.2.9", who.seen(t).Actor.From, "what stands before it is the client's word")
	require.Equal(t, 401, s.user().get("/", "Cookie: __Host-maestro="+cookie.Value).StatusCode, "not without https")
	post := append(forwarded, "Cookie: __Host-maestro="+cookie.Value)
	require.Equal(t, 200, s.user().send("POST", "/x", "", append(post, "Origin: https://maestro.example")...).StatusCode)
	require.Equal(t, 403, s.user().send("POST", "/x", "", append(post, "Origin: https://evil.example")...).StatusCode)

	stranger := newSite(t, behind("10.0.0.0/8"))
	require.Equal(t, 200, stranger.user().get("/health", forwarded...).StatusCode)
	require.Equal(t, 421, stranger.user().get("/health", append(forwarded, "Host: x.example")...).StatusCode)
	got = stranger.user().follow(stranger.link()[len("https://maestro.example"):], forwarded...)
	require.NotEqual(t, "__Host-maestro", got.Cookies()[0].Name)
}

func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	var done atomic.Int64
	s := newSite(t, func(o *access.Options) {
		o.Body = func(r *http.Request) (int64, func(), error) {
			actor, _ := access.Of(r.Context())
			switch r.URL.Path {
			case "/api/upload":
				return 4 << 20, func() { done.Add(1) }, nil
			case "/full":
				return 0, nil, &access.RefusedError{
					Status: http.StatusInsufficientStorage, Title: "Full", Text: "no room for " + actor.Name,
					After: time.Second,
				}
			}
			return 0, func() {}, nil
		}
	})
	u := s.browser()
	headers := []string{"Origin: " + s.url}
	big := strings.Repeat("x", 2<<20)
	require.Equal(t, 413, u.send("POST", "/api/x", big, headers...).StatusCode)
	require.Equal(t, 413, s.user().send("POST", "/health", big).StatusCode)
	require.Equal(t, 401, s.user().send("POST", "/login", big).StatusCode)
	require.Equal(t, len(big), u.send("POST", "/api/upload", big, headers...).seen(t).Body)
	require.Equal(t, 413, u.send("POST", "/api/upload", strings.Repeat("x", 5<<20), headers...).StatusCode)
	require.EqualValues(t, 2, done.Load())
	full := u.send("POST", "/full", "x=", "Origin: "+s.url, "Content-Type: application/x-www-form-urlencoded")
	require.Equal(t, 507, full.StatusCode, "before the form is read")
	require.Equal(t, "1", full.Header.Get("Retry-After"))
	require.Contains(t, full.text, "no room for one-time link ")
	form := []string{"Origin: " + s.url, "Content-Type: application/x-www-form-urlencoded"}
	require.Equal(t, 413, u.send("POST", "/x", "x="+big, form...).StatusCode)

	// Without a length, reading ends at the limit.
	req, err := http.NewRequest(http.MethodPost, s.url+"/api/x", &slow{strings.NewReader(big)})
	require.NoError(t, err)
	req.ContentLength = -1
	req.Header.Set("Origin", s.url)
	resp, err := u.http.Do(req)
	if err == nil { // the server may close the connection before it has read all
		require.Equal(t, 413, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	}
}

type slow struct{ *strings.Reader }

// TestFailuresAreLimited fails from ten thousand addresses, and often from one.
func TestFailuresAreLimited(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *access.Options) { o.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	attacker := s.user()
	statuses := map[int]int{}
	for i := range 30 {
		got := attacker.get(fmt.Sprint("/login?code=", i), "X-Forwarded-For: 192.0.2.1")
		statuses[got.StatusCode]++
		if got.StatusCode == http.StatusTooManyRequests {
			require.Equal(t, "6", got.Header.Get("Retry-After"))
		}
	}
	require.Equal(t, map[int]int{401: 10, 429: 20}, statuses)
	require.Equal(t, 429, attacker.get("/", "Authorization: Bearer x", "X-Forwarded-For: 192.0.2.1").StatusCode,
		"codes and tokens count together")
	require.Equal(t, 303, s.user().follow(s.link(), "X-Forwarded-For: 192.0.2.1").StatusCode,
		"who has a link gets in from the same address")
	s.clock.Pass(6 * time.Second)
	require.Equal(t, 401, attacker.get("/login?code=x", "X-Forwarded-For: 192.0.2.1").StatusCode)
	for i := range 20 {
		attacker.get("/login?code=x", fmt.Sprintf("X-Forwarded-For: 2001:db8::%x", i))
	}
	require.Equal(t, 429, attacker.get("/login?code=x", "X-Forwarded-For: 2001:db8::ffff").StatusCode,
		"a network counts as one address")

	for i := range 10_000 {
		got := attacker.get("/login?code=x", fmt.Sprintf("X-Forwarded-For: 10.1.%d.%d", i/250, i%250))
		require.Equal(t, 401, got.StatusCode)
	}
	events := eventsOf(t, s.audit, access.EventFilter{Limit: 1000})
	require.Less(t, len(events), 80, "the log is bounded")
	require.Equal(t, "192.0.2.1", events[len(events)-1].From)
	s.clock.Pass(time.Minute)
	attacker.get("/login?code=x", "X-Forwarded-For: 192.0.2.200")
	require.Regexp(t, `\d{4} more failures before it`, eventsOf(t, s.audit, access.EventFilter{})[0].Detail)
}
