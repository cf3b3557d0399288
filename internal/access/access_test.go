package access_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
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
