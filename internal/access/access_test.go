package access_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

func roles(t *testing.T, grants ...string) access.Roles {
	t.Helper()
	r, err := access.ParseRoles(grants...)
	require.NoError(t, err)
	return r
}

func TestRolesAllowWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	all := []access.Permission{access.View, access.Approve, access.Operate, access.Admin}
	type row struct {
		grants []string
		team   string
		may    []access.Permission
	}
	for _, r := range []row{
		{nil, "web", nil},
		{nil, access.NoTeam, nil},
		{[]string{"viewer"}, "web", all[:1]},
		{[]string{"approver"}, "web", all[:2]},
		{[]string{"operator"}, "web", []access.Permission{access.View, access.Operate}},
		{[]string{"operator", "approver"}, "web", all[:3]},
		{[]string{"admin"}, "web", all},
		{[]string{"admin"}, access.NoTeam, all},
		{[]string{"admin"}, access.AllTeams, all},
		{[]string{"admin:web"}, "web", all},
		{[]string{"admin:web"}, "api", nil},
		{[]string{"admin:web"}, access.NoTeam, all[:1]},
		{[]string{"admin:web"}, access.AllTeams, nil},
		{[]string{"operator:web", "viewer"}, "api", all[:1]},
		{[]string{"operator:web", "viewer"}, "web", []access.Permission{access.View, access.Operate}},
		{[]string{"operator:web", "approver:web", "viewer:api"}, "web", all[:3]},
	} {
		ctx := access.With(context.Background(), access.Actor{Name: "ann", Roles: roles(t, r.grants...)})
		var may []access.Permission
		for _, p := range all {
			if access.Check(ctx, p, r.team) == nil {
				may = append(may, p)
			}
		}
		assert.Equal(t, r.may, may, "%v for team %q", r.grants, r.team)
	}
}

func TestADenialSaysWhichRoleIsMissing(t *testing.T) {
	t.Parallel()
	ctx := access.With(context.Background(), access.Actor{
		Name:  "ann\x1b[2J\u202e@example.org",
		Roles: roles(t, "viewer", "operator:api"),
	})
	for team, text := range map[string]string{
		"web":         "ann@example.org may not operate: the role operator or admin for team web is missing; an admin can give it",
		access.NoTeam: "ann@example.org may not operate: the role operator or admin for all teams is missing; an admin can give it",
	} {
		err := access.Check(ctx, access.Operate, team)
		var denied *access.DeniedError
		require.ErrorAs(t, err, &denied)
		require.Equal(t, []access.Role{access.RoleOperator, access.RoleAdmin}, denied.Roles)
		require.NotErrorIs(t, err, access.ErrNotSignedIn)
		require.EqualError(t, err, text)
	}
}

func TestReadOnlyAllowsViewingOnly(t *testing.T) {
	t.Parallel()
	a := access.Local("ann@host")
	for _, p := range []access.Permission{access.View, access.Approve, access.Operate, access.Admin} {
		a.ReadOnly = false
		require.NoError(t, access.Check(access.With(context.Background(), a), p, access.AllTeams))
		a.ReadOnly = true
		err := access.Check(access.With(context.Background(), a), p, access.AllTeams)
		if p == access.View {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, "this server is read-only: nothing can be changed here")
		}
	}
}

func TestListsShowTheTeamsThatOneMaySee(t *testing.T) {
	t.Parallel()
	one := access.Visible(access.With(context.Background(), access.Actor{Name: "ann", Roles: roles(t, "viewer:web")}))
	every := access.Visible(access.With(context.Background(), access.Actor{Name: "bob", Roles: roles(t, "viewer")}))
	for team, seen := range map[string][2]bool{"web": {true, true}, "api": {false, true}, "": {false, true}} {
		require.Equal(t, seen[0], one(team), team)
		require.Equal(t, seen[1], every(team), team)
	}
}

func TestGrantsAreReadAndWritten(t *testing.T) {
	t.Parallel()
	r := roles(t, "operator:web", "viewer", "operator:web", "admin:api")
	require.Equal(t, []string{"admin:api", "operator:web", "viewer"}, r.Grants())
	require.Equal(t, roles(t, "viewer", "operator:web", "admin:api", "approver"), r.Merge(roles(t, "approver", "viewer")))
	for _, bad := range []string{"", "root", "admin:", "admin:*", "admin:../x", "Admin", "admin:a:b", ":web"} {
		_, err := access.ParseRoles(bad)
		require.Error(t, err, bad)
	}
}

// tokens are those of a site's store, as another process has them.
func (s *site) tokens() *access.Tokens { return access.NewTokens(s.db, s.audit) }

func (s *site) token(ctx context.Context, name string, lifetime time.Duration, grants ...string) (string, access.Token) {
	s.t.Helper()
	secret, made, err := s.tokens().Create(ctx, access.NewToken{
		Name: name, Roles: grants, For: textfmt.Duration(lifetime), NeverExpires: lifetime == 0,
	})
	require.NoError(s.t, err)
	return secret, made
}

// create is why a token is not made; nil: it is.
func (s *site) create(ctx context.Context, name string, groups []string, grants ...string) error {
	_, _, err := s.tokens().Create(ctx, access.NewToken{Name: name, Roles: grants, Groups: groups})
	return err
}

func (s *site) listed(ctx context.Context) []access.Token {
	s.t.Helper()
	list, err := s.tokens().List(ctx)
	require.NoError(s.t, err)
	return list
}

// TestAnAgentStaysAnAgent tries the ways in which an agent with the role admin could become a person.
func TestAnAgentStaysAnAgent(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.invite("bob", "viewer")
	secret, made, err := s.tokens().Create(ann("admin"), access.NewToken{Name: "coder", Roles: []string{"admin"}, Agent: true})
	require.NoError(t, err)
	require.True(t, made.Agent)
	require.Equal(t, 90*24*time.Hour, made.ExpiresAt.Sub(made.CreatedAt), "a token that says nothing of its time")
	actor := s.user().get("/", "Authorization: Bearer "+secret).seen(t).Actor
	require.Equal(t, "coder, an agent of ann", actor.String())
	require.Equal(t, "agent/coder", actor.Over())
	actor.Program = "mcp/claude-code"
	require.Equal(t, "claude-code for coder, an agent of ann (over MCP)", actor.String())
	require.Equal(t, "mcp/claude-code", actor.Over())
	over := access.Local("ann@desk")
	over.Program = "mcp"
	for _, agent := range []access.Actor{actor, over} {
		ctx := access.With(context.Background(), agent)
		_, other, err := s.tokens().Create(ctx, access.NewToken{Name: "of" + string(agent.Via), Roles: []string{"approver"}})
		require.NoError(t, err)
		require.True(t, other.Agent, "its tokens are an agent's, too")
		_, err = s.people().Invite(ctx, access.NewPerson{Name: "eve", Roles: []string{"approver"}})
		require.ErrorContains(t, err, "an agent would become a person")
		_, err = s.people().Reset(ctx, "bob")
		require.ErrorContains(t, err, "an agent would become a person")
		_, err = s.people().SetRoles(ctx, "bob", access.PersonRoles{Roles: []string{"admin"}})
		require.ErrorContains(t, err, "an agent would become a person")
	}
}

func TestATokenHasItsRoles(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	secret, made := s.token(ann("admin"), "ci", 30*24*time.Hour, "operator:web", "viewer")
	require.Regexp(t, `^maestro_[A-Za-z0-9_-]{43}$`, secret)
	u := s.user()
	got := u.send("POST", "/api/x", "{}", "Authorization: Bearer "+secret)
	require.Equal(t, 200, got.StatusCode, "a program sends no origin and no other token")
	who := got.seen(t)
	require.Equal(t, access.Actor{
		Name: "ci", Owner: "ann", Via: access.ViaToken, From: "127.0.0.1",
		Roles: roles(t, "operator:web", "viewer"),
	}, who.Actor)
	require.Equal(t, "ci", s.browser().get("/", "Authorization: bearer "+secret).seen(t).Actor.Name, "the cookie does not count")

	for _, bad := range []string{
		secret[:len(secret)-1], secret + "x", strings.ToUpper(secret), "maestro_", "maestro_" + strings.Repeat("A", 43), secret + " " +
			secret,
		strings.TrimPrefix(secret, "maestro_"), strings.Repeat("maestro_", 1000), made.ID,
	} {
		got := s.user().get("/api/x", "Authorization: Bearer "+bad)
		require.Contains(t, []int{401, 429}, got.StatusCode)
		require.Contains(t, got.Header.Get("WWW-Authenticate"), "invalid_token")
		require.NotContains(t, got.text, bad)
	}
	for _, headers := range [][]string{
		{"Authorization: Basic " + secret}, {"Authorization: " + secret}, {"Authorization: Bearer x", "Authorization: Bearer " +
			secret}, {"X-Api-Key: " + secret},
	} {
		require.Contains(t, []int{401, 429}, s.user().get("/api/x", headers...).StatusCode)
	}
	require.Equal(t, 401, s.user().get("/api/x?access_token="+secret).StatusCode)
	require.Equal(t, 200, u.get("/api/x", "Authorization: Bearer "+secret).StatusCode,
		"failures of others at the address do not matter")

	list := s.listed(ann("admin"))
	require.Len(t, list, 1)
	require.Equal(t, "2026-11-21", list[0].LastUsed)
}

func TestATokenEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	expiring, _ := s.token(ann("admin"), "short", time.Hour, "viewer")
	revoked, made := s.token(ann("admin"), "long", 0, "viewer")
	status := func(secret string) int {
		return s.user().get("/api/x", "Authorization: Bearer "+secret).StatusCode
	}
	require.Equal(t, []int{200, 200}, []int{status(expiring), status(revoked)})
	s.clock.Pass(time.Hour)
	require.Equal(t, []int{401, 200}, []int{status(expiring), status(revoked)})
	ended := s.user().stream("Authorization: Bearer " + revoked)
	got, err := s.tokens().Revoke(ann("admin"), made.ID) // by another process
	require.NoError(t, err)
	require.Equal(t, "revoked", got.State(s.clock.Now()))
	s.clock.Pass(time.Second)
	require.Contains(t, ended(), access.ErrSignedOut.Error(), "a request that is under way ends")
	require.Equal(t, 401, status(revoked))
	_, err = s.tokens().Revoke(ann("admin"), made.ID)
	require.NoError(t, err, "once more changes nothing")
	var unknown *access.NameError
	_, err = s.tokens().Revoke(ann("admin"), "x")
	require.ErrorAs(t, err, &unknown)
	require.True(t, unknown.Unknown)

	again, _ := s.token(ann("admin"), "long", 0, "viewer")
	require.Equal(t, 200, status(again), "the name is free again")
	s.clock.Pass(91 * 24 * time.Hour)
	_, _ = s.token(ann("admin"), "other", 0, "viewer")
	require.Len(t, s.listed(ann("admin")), 2, "what ended long ago is forgotten")

	var actions []string
	for _, e := range eventsOf(t, s.audit, access.EventFilter{Actor: "ann", Action: "token"}) {
		require.Equal(t, access.Done, e.Outcome)
		actions = append(actions, e.Action+" "+e.Subject)
	}
	require.Equal(t, []string{
		"token.create other", "token.create long", "token.revoke long", "token.create long",
		"token.create short",
	}, actions)
}

func TestWhoManagesTokens(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	lead := ann("admin:web")
	_, own := s.token(lead, "web-ci", 0, "operator:web") // an admin of a team manages the tokens of the team
	_, other := s.token(ann("admin"), "all-ci", 0, "viewer")
	var denied *access.DeniedError
	for _, grants := range [][]string{{"viewer"}, {"viewer:api"}, {"operator:web", "viewer:api"}, {}} {
		require.ErrorAs(t, s.create(lead, "x", nil, grants...), &denied, "%v", grants)
	}
	_, err := s.tokens().Revoke(lead, other.ID)
	require.ErrorAs(t, err, &denied)
	require.Equal(t, own.ID, s.listed(lead)[0].ID)
	require.Empty(t, s.listed(ann("admin:shop")), "an admin of a team that has no tokens")
	for _, ctx := range []context.Context{ann("operator", "approver", "viewer"), ann(), context.Background()} {
		require.ErrorAs(t, s.create(ctx, "x", nil, "viewer"), &denied)
		_, err := s.tokens().List(ctx)
		require.ErrorAs(t, err, &denied)
		_, err = s.tokens().Revoke(ctx, own.ID)
		require.ErrorAs(t, err, &denied)
	}
	for _, name := range []string{"", "ann@desk", "a b", strings.Repeat("x", 64), "web-ci"} {
		require.ErrorAs(t, s.create(ann("admin"), name, nil, "viewer"), new(*access.NameError), name)
	}
}

func TestGroupsOfTokens(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	secret, _, err := s.tokens().Create(ann("admin"), access.NewToken{
		Name: "ci", Roles: []string{"approver"},
		Groups: []string{"leads", "/org/x y"},
	})
	require.NoError(t, err, "an admin of all teams gives any group")
	who := s.user().get("/api/x", "Authorization: Bearer "+secret).seen(t).Actor
	require.Equal(t, []string{"leads", "/org/x y"}, who.Groups)
	require.False(t, who.OnHost())
	require.True(t, access.Local("ann@desk").OnHost())

	lead, _ := access.Of(ann("admin:web"))
	lead.Groups = []string{"web-leads"}
	ctx := access.With(context.Background(), lead)
	require.NoError(t, s.create(ctx, "own", []string{"web-leads"}, "approver:web"), "an admin of a team gives groups of their own")
	require.ErrorAs(t, s.create(ctx, "more", []string{"web-leads", "leads"}, "approver:web"), new(*access.DeniedError))
	for _, bad := range []string{"", " ", "a\nb", " a", strings.Repeat("x", 201)} {
		require.ErrorAs(t, s.create(ann("admin"), "bad", []string{bad}, "approver"), new(*access.NameError), bad)
	}
}
