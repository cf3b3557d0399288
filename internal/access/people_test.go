package access_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

const (
	goodPassword = "correct horse battery"
	newPassword  = "another horse battery"
)

// people are those of a site's store, as another process has them.
func (s *site) people() *access.People { return access.NewPeople(s.db, s.audit, time.Now) }

// account, recovery and revoke are what an admin does with a person: they show the account, give a new link, and revoke it.
func (s *site) account(name string) access.Account {
	s.t.Helper()
	account, err := s.people().Show(ann("admin"), name)
	require.NoError(s.t, err)
	return account
}

func (s *site) recovery(name string) string {
	s.t.Helper()
	person, err := s.people().Reset(ann("admin"), name)
	require.NoError(s.t, err)
	return person.Link
}

func (s *site) revoke(name string) {
	s.t.Helper()
	_, err := s.people().Revoke(ann("admin"), name)
	require.NoError(s.t, err)
}

// invite invites a person, and returns the code of the link.
func (s *site) invite(name string, grants ...string) string {
	s.t.Helper()
	require.NoError(s.t, access.Announce(s.t.Context(), s.db, "desk", s.guard.URL(), false))
	person, err := s.people().Invite(ann("admin"), access.NewPerson{
		Name: name, Roles: grants, Groups: []string{"leads"}, For: textfmt.Duration(time.Hour),
	})
	require.NoError(s.t, err)
	return s.code(person.Link)
}

func (s *site) code(link string) string {
	s.t.Helper()
	code, ok := strings.CutPrefix(link, s.url+"/login/join?code=")
	require.True(s.t, ok, link)
	require.Len(s.t, code, 43)
	return code
}

// form sends a form as a page of this server does, from an address.
func (u *user) form(path, from string, fields ...string) reply {
	u.t.Helper()
	values := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	headers := []string{"Origin: " + u.url, "Content-Type: application/x-www-form-urlencoded", html}
	if from != "" {
		headers = append(headers, "X-Forwarded-For: "+from)
	}
	return u.send("POST", path, values.Encode(), headers...)
}

func (u *user) join(code, password string) reply {
	u.t.Helper()
	return u.form("/login/join", "", "code", code, "password", password, "again", password)
}

func (u *user) login(name, password, from string) reply {
	u.t.Helper()
	return u.form("/login", from, "name", name, "password", password, "return", "/sessions/x")
}

// member is the browser of a person who has joined.
func (s *site) member(name string, grants ...string) *user {
	s.t.Helper()
	u := s.user()
	require.Equal(s.t, 303, u.join(s.invite(name, grants...), goodPassword).StatusCode)
	return u
}

func proxied(o *access.Options) { o.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

func TestAnInvitationMakesOneAccount(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	require.NotContains(t, s.user().get("/login", html).text, `type="password"`, "nobody has an account")
	code := s.invite("ann", "approver:web")
	path := "/login/join?code=" + code
	for range 3 { // programs of chats fetch links
		require.Equal(t, 200, s.user().send("HEAD", path, "").StatusCode)
		page := s.user().get(path, html)
		require.Equal(t, 200, page.StatusCode)
		require.Contains(t, page.text, "Welcome, ann")
		require.Contains(t, page.text, "ann invites you to approve the work of AI agents")
		require.Equal(t, "strict-origin", page.Header.Get("Referrer-Policy"), "the code is in the address")
		require.Empty(t, page.Cookies())
	}
	require.Equal(t, 401, s.user().login("ann", "", "").StatusCode, "an account without a password opens with none")
	for _, weak := range []string{"", "short", "elevenchars", strings.Repeat("x", 1001)} {
		require.Equal(t, 422, s.user().join(code, weak).StatusCode, weak)
	}
	require.Equal(t, 422, s.user().form("/login/join", "", "code", code, "password", goodPassword, "again", newPassword).StatusCode)

	var all sync.WaitGroup
	statuses := make([]int, 4)
	users := make([]*user, len(statuses))
	for i := range statuses {
		users[i] = s.user()
		all.Go(func() { statuses[i] = users[i].join(code, goodPassword+fmt.Sprint(i)).StatusCode })
	}
	all.Wait()
	winner := slices.Index(statuses, 303)
	slices.Sort(statuses)
	require.Equal(t, []int{303, 401, 401, 401}, statuses, "of several uses at once one counts")
	who := users[winner].get("/").seen(t).Actor
	require.NotEmpty(t, who.PersonID)
	require.Equal(t, access.Actor{
		Name: "ann", PersonID: who.PersonID, Via: access.ViaAccount, From: "127.0.0.1", Roles: roles(t, "approver:web"),
		Groups: []string{"leads"},
	}, who)
	require.Equal(t, 303, users[winner].get(path, html).StatusCode, "who follows it again is signed in")
	again := s.user().get(path, html)
	require.Equal(t, 401, again.StatusCode)
	require.Contains(t, again.text, "was used already")
	require.Contains(t, again.text, `type="password"`, "now there is an account")

	late := s.invite("bob", "viewer")
	s.clock.Pass(time.Hour)
	require.Equal(t, 401, s.user().join(late, goodPassword).StatusCode)
	require.NoError(t, access.Announce(t.Context(), s.db, "desk", s.guard.URL(), false))
	_, err := s.people().Invite(ann("admin"), access.NewPerson{Name: "ann", Roles: []string{"viewer"}})
	require.ErrorContains(t, err, "exists already")

	signedIn := s.user().login("ann", goodPassword+fmt.Sprint(winner), "")
	require.Equal(t, 303, signedIn.StatusCode)
	require.Equal(t, "/sessions/x", signedIn.Header.Get("Location"))
	var actions []string
	for _, e := range eventsOf(t, s.audit, access.EventFilter{}) {
		if e.Outcome == access.Done {
			actions = append(actions, e.Action+" by "+e.Who())
		}
	}
	require.Equal(t, []string{"login by ann", "person.invite by ann", "login by ann", "person.join by ann", "person.invite by ann"},
		actions)
	require.NoError(t, filepath.WalkDir(s.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		assert.NotContains(t, string(data), code, path)
		assert.NotContains(t, string(data), goodPassword, path)
		return err
	}))
}

// TestPasswordsAreNotGuessed guesses from many addresses, and with names that nobody has.
func TestPasswordsAreNotGuessed(t *testing.T) {
	t.Parallel()
	s := newSite(t, proxied)
	s.member("ann", "viewer")
	s.invite("invited", "viewer")
	wrong := s.user().login("ann", newPassword, "192.0.2.1")
	require.Equal(t, 401, wrong.StatusCode)
	typed := regexp.MustCompile(`<input name="name" value="[^"]*"`)
	require.Contains(t, wrong.text, `<input name="name" value="ann"`)
	took := map[string]time.Duration{}
	for i, name := range []string{"ann", "nobody", "invited", "", "' or 1=1", strings.Repeat("x", 5000)} {
		began := time.Now()
		got := s.user().login(name, newPassword, fmt.Sprint("192.0.2.", i+2))
		took[name] = time.Since(began)
		require.Equal(t, 401, got.StatusCode)
		require.Contains(t, got.text, "Forgot it?")
		require.Equal(t, typed.ReplaceAllString(wrong.text, ""), typed.ReplaceAllString(got.text, ""),
			"the answer does not say whether there is a %q", name)
		require.Empty(t, got.Cookies())
	}
	for name, t1 := range took {
		require.Greater(t, t1, took["ann"]/10, "%q takes as much work", name)
	}
	for i := range 8 {
		require.Equal(t, 401, s.user().login("ann", newPassword, fmt.Sprint("198.51.100.", i)).StatusCode)
	}
	for name, password := range map[string]string{"ann": newPassword, "ANN": goodPassword} {
		got := s.user().login(name, password, "203.0.113.1")
		require.Equal(t, 429, got.StatusCode, "an account is guessed at from all addresses together")
		require.Equal(t, "60", got.Header.Get("Retry-After"))
	}
	s.clock.Pass(time.Minute)
	require.Equal(t, 303, s.user().login("Ann", goodPassword, "203.0.113.1").StatusCode,
		"a phone begins a name with a capital letter")
	require.Equal(t, 401, s.user().login("ann", newPassword, "203.0.113.1").StatusCode, "a sign-in begins the count anew")

	s.clock.Pass(time.Hour)
	for range 20 {
		s.user().get("/", "Authorization: Bearer x", "X-Forwarded-For: 203.0.113.9")
	}
	for i := range 10 { // of one address all names together
		require.Equal(t, 401, s.user().login(fmt.Sprint("name", i), newPassword, "203.0.113.9").StatusCode)
	}
	require.Equal(t, 429, s.user().login("ann", goodPassword, "203.0.113.9").StatusCode)
	require.Equal(t, 303, s.user().login("ann", goodPassword, "203.0.113.10").StatusCode)
	var details []string
	for _, e := range eventsOf(t, s.audit, access.EventFilter{Action: "login", Limit: 100}) {
		if e.Outcome == access.Denied {
			details = append(details, e.Detail)
		}
	}
	require.Contains(t, strings.Join(details, "\n"), "wrong password of ann")
	require.NotContains(t, strings.Join(details, "\n"), "name1", "what was typed as a name may be a password")
}

// TestSignInFormsOfOtherPagesCount sends what the pages of other servers can make a browser send.
func TestSignInFormsOfOtherPagesDoNotCount(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u := s.member("ann", "viewer")
	before := cookieOf(t, u)
	for _, path := range []string{"/login", "/login/join", "/account/password", "/account/sign-out", "/account/device"} {
		got := u.send("POST", path, "name=ann&password=correct+horse+battery", "Origin: http://evil.example",
			"Sec-Fetch-Site: cross-site", "Content-Type: application/x-www-form-urlencoded")
		require.Equal(t, 403, got.StatusCode, path)
		require.Empty(t, got.Cookies())
	}
	_, port, _ := strings.Cut(s.address, ":")
	chosen := s.user()
	got := chosen.send("POST", "/login", "name=ann&password=correct+horse+battery&return=//evil.example", "Origin: "+s.url,
		"Content-Type: application/x-www-form-urlencoded", "Cookie: maestro-"+port+"=chosen")
	require.Equal(t, 303, got.StatusCode)
	require.Equal(t, "/", got.Header.Get("Location"))
	require.NotEqual(t, "maestro-"+port+"=chosen", cookieOf(t, chosen), "nobody else chooses the session")
	require.NotEqual(t, before, cookieOf(t, chosen))
	far := newSite(t, func(o *access.Options) { o.Hosts = []string{"maestro.example"} })
	require.Equal(t, 403, far.user().send("POST", "/login", "name=a&password=b", "Host: maestro.example",
		"Content-Type: application/x-www-form-urlencoded").StatusCode, "not without https")
}

// stream opens a stream of events, and returns what it says at its end.
func (u *user) stream(headers ...string) func() string {
	u.t.Helper()
	resp := u.open("GET", "/api/events", "", headers...)
	require.Equal(u.t, 200, resp.StatusCode)
	return func() string {
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return string(text)
	}
}

func TestRolesOfPeopleChangeAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u := s.member("ann", "admin")
	ended := u.stream()
	_, err := s.people().SetRoles(ann("admin"), "ann", access.PersonRoles{Roles: []string{"viewer:web"}})
	require.NoError(t, err)
	require.Contains(t, ended(), "revoked", "a stream with the roles before ends")
	who := u.get("/").seen(t).Actor
	require.Equal(t, roles(t, "viewer:web"), who.Roles)
	require.Equal(t, []string{"leads"}, who.Groups)
	_, err = s.people().SetRoles(ann("admin"), "ann", access.PersonRoles{Roles: []string{"viewer:web"}, NoGroups: true})
	require.NoError(t, err)
	require.Empty(t, u.get("/").seen(t).Actor.Groups)

	ended = u.stream()
	s.revoke("ann")
	require.Contains(t, ended(), "revoked")
	require.Equal(t, 401, u.get("/").StatusCode)
	require.Equal(t, 401, s.user().login("ann", goodPassword, "").StatusCode)
}

func TestRecoveryEndsWhatWasBefore(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	before := s.member("ann", "viewer")
	first := s.recovery("ann")
	link := s.recovery("ann")
	require.Equal(t, 401, s.user().join(s.code(first), newPassword).StatusCode, "a newer link is in its place")
	require.Equal(t, 200, before.get("/").StatusCode, "until the link is used")
	require.Equal(t, 303, s.user().login("ann", goodPassword, "").StatusCode)
	after := s.user()
	require.Equal(t, 303, after.join(s.code(link), newPassword).StatusCode)
	require.Equal(t, 401, before.get("/").StatusCode)
	require.Equal(t, 401, s.user().login("ann", goodPassword, "").StatusCode)
	require.Equal(t, 303, s.user().login("ann", newPassword, "").StatusCode)

	pending := s.recovery("ann")
	s.revoke("ann")
	require.Equal(t, 401, s.user().join(s.code(pending), newPassword).StatusCode, "a revocation ends links, too")
	pending = s.recovery("ann")
	s.revoke("ann")
	require.Equal(t, 401, s.user().join(s.code(pending), newPassword).StatusCode, "so does a second one")
	require.Len(t, eventsOf(t, s.audit, access.EventFilter{Action: "person.revoke"}), 2)
	back := s.recovery("ann")
	require.Equal(t, 303, after.join(s.code(back), goodPassword).StatusCode)
	require.Equal(t, "ann", after.get("/").seen(t).Actor.Name)
}

func TestAPersonChangesThePassword(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u := s.member("ann", "viewer")
	other := s.user()
	require.Equal(t, 303, other.login("ann", goodPassword, "").StatusCode)
	change := func(current, password string) int {
		return u.form("/account/password", "", "current", current, "password", password, "again", password).StatusCode
	}
	require.Equal(t, 422, change(newPassword, newPassword))
	require.Equal(t, 422, change(goodPassword, "short"))
	require.Equal(t, 200, other.get("/").StatusCode)
	require.Equal(t, 303, change(goodPassword, newPassword))
	require.Equal(t, 401, other.get("/").StatusCode, "other browsers are signed out")
	require.Equal(t, 200, u.get("/").StatusCode)
	require.Equal(t, 401, other.login("ann", goodPassword, "").StatusCode)
	require.Equal(t, 303, other.login("ann", newPassword, "").StatusCode)
	require.Len(t, s.account("ann").SignIns, 2)
	require.Equal(t, 303, u.form("/account/sign-out", "").StatusCode)
	require.Equal(t, 401, other.get("/").StatusCode)
	require.Equal(t, 200, u.get("/").StatusCode)
	link := s.browser()
	require.Equal(t, 422, link.form("/account/password", "", "password", newPassword, "again", newPassword).StatusCode,
		"who came by a link has no account")
	require.Equal(t, 401, s.user().form("/account/password", "", "password", newPassword, "again", newPassword).StatusCode)
	s.clock.Pass(16 * time.Minute)
	got := u.form("/account/device", "")
	require.Equal(t, 422, got.StatusCode, "somebody else may sit there")
	require.Contains(t, got.text, "sign in, and repeat it")
}

// TestWhoManagesPeople has admins of one team, and others, try what only an admin of all teams may.
func TestWhoManagesPeople(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.invite("boss", "admin")
	s.invite("both", "viewer:web", "viewer:shop")
	s.invite("lead", "approver:web") // in the group leads
	web := access.With(context.Background(), access.Actor{Name: "wanda", Roles: roles(t, "admin:web")})
	p := s.people()
	invite := func(ctx context.Context, name string, groups []string, grants ...string) error {
		_, err := p.Invite(ctx, access.NewPerson{Name: name, Roles: grants, Groups: groups})
		return err
	}
	reset := func(ctx context.Context, name string) error { _, err := p.Reset(ctx, name); return err }
	set := func(ctx context.Context, name string, grants ...string) error {
		_, err := p.SetRoles(ctx, name, access.PersonRoles{Roles: grants})
		return err
	}
	require.NoError(t, invite(web, "wim", nil, "approver:web"))
	require.NoError(t, set(web, "wim", "operator:web"))
	require.NoError(t, set(web, "lead", "viewer:web"))
	held, err := p.Reset(web, "wim")
	require.NoError(t, err)
	_, err = p.SetRoles(web, "lead", access.PersonRoles{Roles: []string{"viewer:web"}, NoGroups: true})
	require.ErrorAs(t, err, new(*access.DeniedError), "without the group she would recover the account")
	for what, err := range map[string]error{
		"a role for all teams":           invite(web, "x", nil, "viewer"),
		"a role of another team":         invite(web, "x", nil, "viewer:web", "viewer:shop"),
		"a group that is not hers":       invite(web, "x", []string{"leads"}, "viewer:web"),
		"more than her team":             set(web, "wim", "viewer"),
		"somebody with other roles, too": set(web, "both", "viewer:web"),
		"becoming a member of leads":     reset(web, "lead"),
		"becoming an admin":              reset(web, "boss"),
		"somebody who does not exist":    reset(web, "x"),
		"an operator": invite(access.With(context.Background(),
			access.Actor{Name: "olga", Roles: roles(t, "operator")}), "x", nil, "viewer:web"),
		"a read-only server": reset(access.With(context.Background(), access.Actor{
			Name: "ann", Roles: roles(t, "admin"),
			ReadOnly: true,
		}), "wim"),
		"nobody": invite(context.Background(), "x", nil, "viewer:web"),
	} {
		var denied *access.DeniedError
		require.ErrorAs(t, err, &denied, what)
	}
	require.EqualError(t, reset(web, "boss"), reset(web, "x").Error(), "nobody learns who exists")
	seen, err := p.List(web)
	require.NoError(t, err)
	names := []string{}
	for _, one := range seen {
		names = append(names, one.Name)
	}
	require.Equal(t, []string{"lead", "wim"}, names)
	raised, err := p.SetRoles(ann("admin"), "wim", access.PersonRoles{Roles: []string{"admin"}})
	require.NoError(t, err)
	require.Equal(t, 401, s.user().join(s.code(held.Link), newPassword).StatusCode, "the link that she kept gives no later roles")
	require.Equal(t, 303, s.user().join(s.code(raised.Link), newPassword).StatusCode, "who has changed the roles gets another")
	again, err := p.SetRoles(ann("admin"), "wim", access.PersonRoles{Roles: []string{"viewer"}})
	require.NoError(t, err)
	require.Empty(t, again.Link, "there is no link any more")
	for _, bad := range []string{"", "ann@example.org", "-x", "a b", strings.Repeat("a", 64)} {
		require.Error(t, invite(ann("admin"), bad, nil, "viewer"), bad)
	}
	require.Error(t, invite(ann("admin"), "noroles", nil))
	require.EqualError(t, invite(web, "boss", nil, "viewer:web"), "the name boss is taken; choose another", "not who it is")
	statuses := []int{}
	for range 2 {
		statuses = append(statuses, s.user().get("/login/join?code=x").StatusCode)
	}
	require.Equal(t, []int{http.StatusUnauthorized, http.StatusUnauthorized}, statuses)
}

// TestTokensEndWithTheirOwner has a person make a token, lose roles, and then the account.
func TestTokensEndWithTheirOwner(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	owner := s.member("ann", "admin").get("/").seen(t).Actor
	mine := access.With(context.Background(), owner)
	secret, _ := s.token(mine, "ci", 0, "admin:web", "operator", "approver:shop")
	grouped, _, err := s.tokens().Create(mine, access.NewToken{
		Name: "grouped", Roles: []string{"approver"},
		Groups: []string{"leads", "others"},
	})
	require.NoError(t, err)
	_, other := s.token(ann("admin"), "other", 0, "admin")
	use := func(secret string) reply { return s.user().get("/api/x", "Authorization: Bearer "+secret) }
	require.Equal(t, []string{"leads", "others"}, use(grouped).seen(t).Actor.Groups)
	for _, grants := range [][]string{{"operator:web", "approver:shop"}, {"viewer"}, {"viewer:api"}, {"admin"}, {"approver"}} {
		owns, token := roles(t, grants...), roles(t, "admin:web", "operator", "approver:shop")
		_, err := s.people().SetRoles(ann("admin"), "ann", access.PersonRoles{Roles: grants})
		require.NoError(t, err)
		has := use(secret).seen(t).Actor.Roles
		for _, p := range []access.Permission{access.View, access.Approve, access.Operate, access.Admin} {
			for _, team := range []string{"web", "shop", "api", access.AllTeams, access.NoTeam} {
				require.Equal(t, token.Allow(p, team) && owns.Allow(p, team), has.Allow(p, team), "%v: %s %q", grants, p, team)
			}
		}
	}
	require.Equal(t, []string{"leads"}, use(grouped).seen(t).Actor.Groups)
	s.revoke("ann")
	require.Equal(t, 401, use(secret).StatusCode)
	back := s.recovery("ann")
	require.Equal(t, 303, s.user().join(s.code(back), newPassword).StatusCode)
	require.Equal(t, 401, use(secret).StatusCode, "the account is back, its tokens are not")
	all, err := s.tokens().List(ann("admin"))
	require.NoError(t, err)
	for _, k := range all {
		require.Equal(t, k.ID != other.ID, k.RevokedAt != nil, k.Name)
	}
}
