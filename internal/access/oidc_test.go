package access_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	stdhtml "html"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

// newOIDCSite is a server at which people sign in by a provider.
func newOIDCSite(t *testing.T) (*site, *provider) {
	t.Helper()
	c := newClock()
	p := newProvider(t, c)
	return startOIDCSite(t, t.TempDir(), c, p), p
}

func startOIDCSite(t *testing.T, dir string, c *statetest.Clock, p *provider, groups ...string) *site {
	t.Helper()
	o := &access.OIDCOptions{Issuer: p.server.URL, ClientID: "maestro", Secret: "s3cret"}
	for _, text := range append([]string{"eng=operator:web", "eng=viewer", "leads=approver"}, groups...) {
		g, err := access.ParseGroupRole(text)
		require.NoError(t, err)
		o.Groups = append(o.Groups, g)
	}
	return startSite(t, dir, c, "127.0.0.1:0", func(options *access.Options) { options.OIDC = o })
}

// signIn signs a user in at the provider, and returns the last answer.
func (u *user) signIn(p *provider, to string) reply {
	u.t.Helper()
	got := u.get("/login/oidc?" + url.Values{"return": {to}}.Encode())
	require.Equal(u.t, 303, got.StatusCode, got.text)
	require.True(u.t, strings.HasPrefix(got.Header.Get("Location"), p.server.URL+"/authorize?"))
	return u.get(p.authorize(got.Header.Get("Location")), html)
}

func TestPeopleSignInByAProvider(t *testing.T) {
	t.Parallel()
	s, p := newOIDCSite(t)
	u := s.user()
	require.Contains(t, u.get("/sessions/x?y=1", html).text, `href="/login/oidc?return=%2fsessions%2fx%3fy%3d1"`)
	got := u.signIn(p, "/sessions/x?y=1")
	require.Equal(t, 303, got.StatusCode, got.text)
	require.Equal(t, "/sessions/x?y=1", got.Header.Get("Location"))
	want := access.Actor{
		Name: "bob@example.org", Via: access.ViaOIDC, From: "127.0.0.1", Groups: []string{"eng", "leads"},
		Roles: roles(t, "operator:web", "viewer", "approver"),
	}
	who := u.get("/").seen(t)
	require.Equal(t, want.Name, who.Actor.Name)
	require.Equal(t, want.Groups, who.Actor.Groups)
	require.Equal(t, want.Roles.Grants(), who.Actor.Roles.Grants())
	require.Equal(t, 200, u.send("POST", "/x", "", "Origin: "+s.url).StatusCode)

	// What groups may is the server's decision of today.
	u.site = startOIDCSite(t, s.dir, s.clock, p, "leads=admin")
	_, port, _ := strings.Cut(u.address, ":")
	_, cookie, _ := strings.Cut(cookieOf(t, u), "=")
	require.Contains(t, u.get("/", "Cookie: maestro-"+port+"="+cookie).seen(t).Actor.Roles.Grants(), "admin")
	u.site = startSite(t, s.dir, s.clock, "127.0.0.1:0")
	_, port, _ = strings.Cut(u.address, ":")
	require.Empty(t, u.get("/", "Cookie: maestro-"+port+"="+cookie).seen(t).Actor.Roles)

	u.site = s
	s.clock.Pass(12 * time.Hour)
	require.Equal(t, 401, u.get("/").StatusCode, "the provider is asked again after half a day")
}

// claims are what a provider says of a person, as JSON.
func claims(t *testing.T, text string) (all map[string]any) {
	t.Helper()
	if text != "" {
		require.NoError(t, json.Unmarshal([]byte(text), &all), text)
	}
	return all
}

func TestNamesAndGroupsOfAProvider(t *testing.T) {
	t.Parallel()
	s, p := newOIDCSite(t)
	const ceo = `"email":"ceo@example.org"`
	for _, c := range []struct {
		person, info, name string
		status             int
	}{
		{`{"sub":"1",` + ceo + `,"preferred_username":"ann@desk","groups":"eng"}`, "", "ann@desk (1)", 303},
		{`{"sub":"2",` + ceo + `,"email_verified":"true","groups":["eng"]}`, "", "ceo@example.org", 303},
		{`{"sub":"7",` + ceo + `,"email_verified":"false","groups":["eng"]}`, "", "7", 303},
		{
			`{"sub":"8",` + ceo + `,"email_verified":null,"groups":null}`, `{"sub":"8","groups":["","eng"],"email_verified":"false"}`,
			"8", 303,
		},
		{`{"sub":"9","email_verified":true}`, `{"sub":"9","groups":["eng"],` + ceo + `}`, "9", 303},
		{`{"sub":"3"}`, `{"sub":"3","groups":["leads"],"email":"c@d","email_verified":true}`, "c@d", 303},
		{`{"sub":"4"}`, `{"sub":"9","groups":["leads"]}`, "", 401},
		{`{"sub":"5","groups":["other"]}`, "", "", 403},
		{`{"sub":"6","groups":["eng",7]}`, "", "", 403},
		{`{"sub":"","groups":["eng"]}`, "", "", 401},
	} {
		p.set(func() { p.person, p.info = claims(t, c.person), claims(t, c.info) })
		u := s.user()
		got := u.signIn(p, "/")
		require.Equal(t, c.status, got.StatusCode, "%v: %s", c.person, got.text)
		if c.name != "" {
			require.Equal(t, c.name, u.get("/").seen(t).Actor.Name)
		} else {
			require.Equal(t, 401, u.get("/").StatusCode)
		}
	}
	require.Equal(t, access.Denied, eventsOf(t, s.audit, access.EventFilter{Actor: "5"})[0].Outcome)
}

func TestARoleIsFoundAmongManyGroups(t *testing.T) {
	t.Parallel()
	s, p := newOIDCSite(t)
	var groups []string
	for i := range 2000 {
		groups = append(groups, fmt.Sprintf("g-%04d", i))
	}
	p.set(func() { p.person = map[string]any{"sub": "1", "groups": append(groups, "leads")} })
	u := s.user()
	require.Equal(t, 303, u.signIn(p, "/").StatusCode)
	actor := u.get("/").seen(t).Actor
	require.Equal(t, roles(t, "approver"), actor.Roles)
	require.Equal(t, "leads", actor.Groups[0])
	require.Len(t, actor.Groups, 200)
}

func TestWhoHasNoRoleIsToldWhy(t *testing.T) {
	t.Parallel()
	s, p := newOIDCSite(t)
	for person, why := range map[string]string{
		`{"sub":"s","groups":["a","b"]}`: "in no group that has a role here (the provider names 2 groups)",
		// as Google
		`{"sub":"s","email":"ann@example.org","email_verified":true}`: `ann@example.org has no role, because the provider states ` +
			`no claim "groups"`,
		`{"sub":"s","groups":""}`:   `claim "groups" is empty`,
		`{"sub":"s","groups":null}`: `states no claim "groups"`,
		`{"sub":"s","groups":[]}`:   `claim "groups" is empty`,
		// a distributed claim
		`{"sub":"s","_claim_names":{"groups":"src1"},"_claim_sources":{"src1":{"endpoint":"https://graph.example/me"}}}`: "is in too " +
			"many groups",
		`{"sub":"s","hasgroups":true}`:   "is in too many groups",
		`{"sub":"s","hasgroups":"true"}`: "is in too many groups",
	} {
		p.set(func() { p.person, p.info = claims(t, person), map[string]any{"sub": "s"} })
		got := s.user().signIn(p, "/")
		require.Equal(t, 403, got.StatusCode, "%s: %s", person, got.text)
		require.Contains(t, stdhtml.UnescapeString(got.text), why, person)
	}
}

func TestAPersonOfAProviderIsKnownUnderEachName(t *testing.T) {
	t.Parallel()
	s, p := newOIDCSite(t)
	as := func(subject, name string) access.Actor {
		p.set(func() {
			p.person = map[string]any{"sub": subject, "preferred_username": name, "groups": []string{"eng"}}
		})
		u := s.user()
		require.Equal(t, 303, u.signIn(p, "/").StatusCode)
		return u.get("/").seen(t).Actor
	}
	ann, renamed, other := as("1", "ann"), as("1", "anna"), as("2", "ann")
	require.Equal(t, []string{"ann (1)", "anna (1)", "ann (2)"}, []string{ann.Name, renamed.Name, other.Name})
	require.NotEmpty(t, ann.PersonID)
	require.Equal(t, ann.Identity(), renamed.Identity())
	require.NotEqual(t, ann.Identity(), other.Identity())

	ann.Roles = roles(t, "admin")
	secret, _ := s.token(access.With(t.Context(), ann), "ci", time.Hour, "viewer")
	require.Equal(t, ann.Identity(), s.user().get("/api/x", "Authorization: Bearer "+secret).seen(t).Actor.Identity())
}

func TestWrongTokensOfAProviderAreRefused(t *testing.T) {
	t.Parallel()
	s, p := newOIDCSite(t)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	set := func(name string, value any) func(map[string]any) {
		return func(claims map[string]any) { claims[name] = value }
	}
	for name, c := range map[string]struct {
		change func(map[string]any)
		sign   func(map[string]any) string
	}{
		"wrong nonce":    {change: set("nonce", "x")},
		"no nonce":       {change: func(claims map[string]any) { delete(claims, "nonce") }},
		"wrong issuer":   {change: set("iss", "https://evil.example")},
		"expired":        {change: set("exp", s.clock.Now().Add(-time.Second).Unix())},
		"not yet valid":  {change: set("nbf", s.clock.Now().Add(time.Hour).Unix())},
		"wrong audience": {change: set("aud", "other")},
		"for two, by the other": {change: func(claims map[string]any) {
			claims["aud"],
				claims["azp"] = []string{"maestro", "other"}, "other"
		}},
		"for two, and not for whom":  {change: set("aud", []string{"maestro", "other"})},
		"no signature":               {sign: p.none},
		"signed with the public key": {sign: p.hs256},
		"another key":                {sign: func(claims map[string]any) string { return p.signWith(other, claims) }},
		"not a token":                {sign: func(map[string]any) string { return "x" }},
		"none":                       {sign: func(map[string]any) string { return "" }},
	} {
		p.set(func() { p.change, p.sign = c.change, c.sign })
		u := s.user()
		got := u.signIn(p, "/")
		require.Contains(t, []int{401, 429}, got.StatusCode, name)
		require.Equal(t, 401, u.get("/").StatusCode, name)
	}
	p.set(func() { p.change, p.sign = set("aud", []string{"maestro"}), nil })
	require.Equal(t, 303, s.user().signIn(p, "/").StatusCode, "who is good gets in after the failures of others")
}

func TestASignInIsBoundToItsBrowser(t *testing.T) {
	t.Parallel()
	s, p := newOIDCSite(t)
	begin := func(u *user) string {
		return u.get("/login/oidc").Header.Get("Location")
	}
	victim, mallory := s.user(), s.user()
	back := p.authorize(begin(mallory))
	require.Equal(t, 401, victim.get(back).StatusCode, "a callback of another browser")
	begin(victim)
	require.Equal(t, 401, victim.get(back).StatusCode, "another state")
	require.Equal(t, 303, mallory.get(back).StatusCode)
	require.Equal(t, 401, mallory.get(back).StatusCode, "a callback works once")

	u := s.user()
	address := begin(u)
	for _, cookie := range u.get("/login/oidc").Cookies() {
		require.True(t, cookie.HttpOnly)
		require.Equal(t, http.SameSiteLaxMode, cookie.SameSite)
		require.Equal(t, 600, cookie.MaxAge)
	}
	require.NotEqual(t, address, begin(u), "each sign-in has its own state, nonce and challenge")
	for _, query := range []string{"", "?state=", "?code=x", "?code=x&state=", "?error=access_denied"} {
		require.Contains(t, []int{401, 429}, s.user().get("/login/callback"+query).StatusCode)
	}
	// The code of one sign-in in another one: the provider refuses the verifier.
	q, _ := url.Parse(p.authorize(begin(s.user())))
	mine, _ := url.Parse(begin(u))
	stolen := s.url + "/login/callback?" + url.Values{"code": q.Query()["code"], "state": mine.Query()["state"]}.Encode()
	require.Contains(t, []int{401, 429}, u.get(stolen).StatusCode)
	// A provider that answers for another one.
	mixed := p.authorize(begin(u))
	got := u.get(strings.Replace(mixed, url.QueryEscape(p.server.URL), "https%3A%2F%2Fevil.example", 1))
	require.Contains(t, []int{401, 429}, got.StatusCode)
	// What the provider says is shown as text.
	denied, _ := url.Parse(begin(u))
	got = u.get("/login/callback?"+url.Values{"error": {"<script>\u202e"}, "state": denied.Query()["state"]}.Encode(), html)
	require.NotContains(t, got.text, "<script>")
	require.NotContains(t, got.text, "\u202e")
}

func TestASignInLeadsToThisServerOnly(t *testing.T) {
	t.Parallel()
	s, p := newOIDCSite(t)
	for to, want := range map[string]string{
		"/a?b=c#d": "/a?b=c", "": "/", "https://evil.example/": "/", "//evil.example": "/", `/\evil.example`: "/",
		"/\t/evil.example": "/", "\\\\evil": "/",
		"evil": "/", "javascript:alert(1)": "/", "/login?code=x": "/", "/logout": "/logout", "http:/x": "/", "/a\r\nSet-Cookie: x": "/",
	} {
		require.Equal(t, want, s.user().signIn(p, to).Header.Get("Location"), "%q", to)
	}
}

func TestAProviderThatIsAway(t *testing.T) {
	t.Parallel()
	s, p := newOIDCSite(t)
	p.set(func() { p.down = true })
	got := s.user().get("/login/oidc", html)
	require.Equal(t, 503, got.StatusCode)
	require.Contains(t, got.text, "cannot be used")
	p.set(func() { p.down = false })
	s.clock.Pass(3 * time.Second)
	require.Equal(t, 303, s.user().signIn(p, "/").StatusCode)
	p.set(func() { p.down = true })
	require.Equal(t, 303, s.user().get("/login/oidc").StatusCode)
}

// newNamedSite is a server with a provider that is called maestro.example.
func newNamedSite(t *testing.T, proxies ...netip.Prefix) *site {
	t.Helper()
	c := newClock()
	p := newProvider(t, c)
	return startSite(t, t.TempDir(), c, "127.0.0.1:0", func(o *access.Options) {
		o.OIDC = &access.OIDCOptions{Issuer: p.server.URL, ClientID: "maestro", Secret: "s3cret"}
		o.Hosts, o.Proxies = []string{"maestro.example"}, proxies
	})
}

func TestTheFirstNameIsTheProvidersAddress(t *testing.T) {
	t.Parallel()
	s := newNamedSite(t, netip.MustParsePrefix("127.0.0.0/8"))
	got := s.user().get("/login/oidc?return=/x")
	require.Equal(t, "https://maestro.example/login/oidc?return=%2Fx", got.Header.Get("Location"))
	got = s.user().get("/login/oidc?return=/x", "X-Forwarded-Host: maestro.example", "X-Forwarded-Proto: https")
	to, err := url.Parse(got.Header.Get("Location"))
	require.NoError(t, err)
	require.Equal(t, "https://maestro.example/login/callback", to.Query().Get("redirect_uri"))
	require.Equal(t, "__Host-maestro-oidc", got.Cookies()[0].Name)
	require.True(t, got.Cookies()[0].Secure)

	s = newNamedSite(t) // without a proxy
	_, port, _ := strings.Cut(s.address, ":")
	got = s.user().get("/login/oidc", "Host: maestro.example:"+port)
	require.Equal(t, 403, got.StatusCode, got.text)
	require.Contains(t, got.text, "by https")
	require.Empty(t, got.Cookies())
}

func TestGroupsHaveRoles(t *testing.T) {
	t.Parallel()
	g, err := access.ParseGroupRole("cn=web,dc=example=operator:web")
	require.NoError(t, err)
	require.Equal(t, access.GroupRole{Group: "cn=web,dc=example", Roles: roles(t, "operator:web")}, g)
	for _, bad := range []string{"", "eng", "=viewer", "eng=", "eng=root", "eng=viewer:"} {
		_, err := access.ParseGroupRole(bad)
		require.Error(t, err, bad)
	}
}

func TestRolesByVerifiedAddresses(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := newProvider(t, c)
	o := &access.OIDCOptions{Issuer: p.server.URL, ClientID: "maestro", Secret: "s3cret"}
	for _, text := range []string{"Ann@Example.org=approver:web", "@example.org=viewer"} {
		m, err := access.ParseMailRole(text)
		require.NoError(t, err)
		o.Mails = append(o.Mails, m)
	}
	s := startSite(t, t.TempDir(), c, "127.0.0.1:0", func(options *access.Options) { options.OIDC = o })
	verified := func(mail any) map[string]any {
		return map[string]any{"sub": "1", "email": mail, "email_verified": true}
	}
	type row struct {
		person, info map[string]any
		want         []string
	}
	all := []row{
		{verified("ann@example.org"), nil, []string{"approver:web", "viewer"}},
		{verified("ANN@EXAMPLE.ORG"), nil, []string{"approver:web", "viewer"}},
		{verified("bob@example.org"), nil, []string{"viewer"}},
		{claims(t, `{"sub":"1"}`), verified("bob@example.org"), []string{"viewer"}},
		{claims(t, `{"sub":"ann@example.org"}`), nil, nil},
		{claims(t, `{"sub":"1","email":"ann@example.org"}`), nil, nil},
		{claims(t, `{"sub":"1","email":"ann@example.org","email_verified":"false"}`), nil, nil},
		{claims(t, `{"sub":"1","email":"ann@example.org"}`), verified("eve@evil.example"), nil},
		{verified([]string{"ann@example.org"}), nil, nil},
	}
	for _, nobody := range []string{
		"ann@evil.example", "ann@sub.example.org", "ann@notexample.org", "x@evil.example@example.org",
		`"x@evil.example"@example.org`, "ann@example.org\u0000", "ann@e\u00d7ample.org", "a\u017fh@example.org", "@example.org", "",
	} {
		all = append(all, row{verified(nobody), nil, nil})
	}
	for _, r := range all {
		p.set(func() {
			if p.person, p.info = r.person, r.info; r.info == nil {
				p.info = map[string]any{"sub": r.person["sub"]}
			}
		})
		u := s.user()
		got := u.signIn(p, "/")
		if r.want == nil {
			require.Equal(t, 403, got.StatusCode, "%v: %s", r.person, got.text)
			require.Equal(t, 401, u.get("/").StatusCode)
			continue
		}
		require.Equal(t, 303, got.StatusCode, "%v: %s", r.person, got.text)
		require.Equal(t, r.want, u.get("/").seen(t).Actor.Roles.Grants())
	}
}

func TestALinkSignsANamedPersonIn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.invite("bob", "viewer")
	link, err := access.NewLink(t.Context(), s.db, s.audit, "desk", "ann@desk", "eve", roles(t, "approver:web"))
	require.NoError(t, err)
	u := s.user()
	require.Contains(t, u.get(link, html).text, ">Sign in as eve</button>")
	require.Equal(t, 303, u.follow(link).StatusCode)
	who := u.get("/").seen(t).Actor
	require.Equal(t, access.Actor{Name: "eve", Via: access.ViaLink, From: "127.0.0.1", Roles: roles(t, "approver:web")}, who)
	require.False(t, who.OnHost(), "she is a member of no group")
	made := eventsOf(t, s.audit, access.EventFilter{Action: "link.create"})[0]
	require.Equal(t, "ann@desk", made.Who())
	require.Equal(t, "eve: approver:web", made.Detail)
	require.Equal(t, "one-time link "+made.Subject,
		eventsOf(t, s.audit, access.EventFilter{Action: "login", Actor: "eve"})[0].Detail)
	_, err = access.NewLink(t.Context(), s.db, s.audit, "desk", "ann@desk", "bob", roles(t, "approver:web"))
	require.ErrorContains(t, err, "bob has an account", "one person is not two")
}
